"""ProtoNorm: FedProto with Prototype Alignment and Prototype Upscaling.

Lee, Shin, Choi: Heterogeneous Federated Learning with Prototype Alignment and
Upscaling, https://arxiv.org/abs/2507.04310. Alignment (Algorithm 1, Eq. 8 to 14) is
`kernels.align`, on the server after the mean of Eq. 7; upscaling (Eq. 15)
multiplies what a client receives.

Deviations (paper / released code / here), besides those of FedProto:
- stop of the alignment: "10 consecutive changes below epsilon" / mean force equal to
  4 decimals 10 times in a row, from iteration 10, 500 iterations at most / as code.
- classes that nobody holds: not stated / crash / no prototype, no force.
- prediction by global prototypes: not used / unscaled unit prototypes / scaled, as
  trained; for unit prototypes the scale does not change the prediction.
- without alignment: Table 5, FedProto scaled / cannot run / `alignment=IDENTITY`, or
  `upscale` of `fedproto`.
"""

import dataclasses
from collections.abc import Callable

from jaxproto import kernels
from jaxproto.hyperparameters import Positive
from jaxproto.method import Method
from jaxproto.methods.fedproto import Pull, fedproto
from jaxproto.privacy import NONE, Privacy
from jaxproto.transforms import IDENTITY, THOMSON, Transform, chain
from jaxproto.types import Spec


def protonorm(
    spec: Spec,
    *,
    pull: Pull = Pull(),
    alignment: Transform = THOMSON,
    upscale: Positive = 100.0,
    aggregate: Callable = kernels.mean_over_clients,
    on_server: Transform = IDENTITY,
    privacy: Privacy = NONE,
) -> Method:
    """ProtoNorm; `alignment=IDENTITY, upscale=1.0` is FedProto.

    Args:
      spec: number of classes and feature dimension.
      pull, aggregate, privacy: as in `fedproto`.
      alignment: server-side transform of the mean prototypes.
      upscale: gamma of Eq. 15 (paper: 100 for CIFAR-10, 200 for CIFAR-100 and
        Flowers-102, 400 for Tiny ImageNet; released code: 80).
      on_server: transform of the mean prototypes before the alignment.
    """
    method = fedproto(
        spec,
        pull=pull,
        aggregate=aggregate,
        on_server=chain(on_server, alignment),
        upscale=upscale,
        privacy=privacy,
    )
    return dataclasses.replace(method, title="ProtoNorm")
