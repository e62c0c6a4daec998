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
- first round: normalised global prototypes of all classes, drawn in a way not stated
  (Algorithm 2, line 1) / no pull / `initial`, default no pull; `random_unit` draws them
  uniformly from the sphere (variant `paper`).
- without alignment: Table 5, FedProto scaled / cannot run / `alignment=IDENTITY`, or
  `upscale` of `fedproto`.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxproto.core.hyperparameters import Positive
from jaxproto.core.method import Method
from jaxproto.core.types import Array, Protos, Spec
from jaxproto.methods.fedproto import Pull, fedproto
from jaxproto.prototypes import kernels
from jaxproto.prototypes.transforms import IDENTITY, THOMSON, Transform, chain
from jaxproto.wrappers.privacy import NONE, Privacy


def no_initial_prototypes(protos: Protos, key: Array) -> Protos:
    """Returns the absent prototypes unchanged: round 1 has no pull."""
    return protos


def random_unit(protos: Protos, key: Array) -> Protos:
    """Draws a unit prototype for every class (Algorithm 2, line 1)."""
    unit_CD = kernels.normalise_rows(jax.random.normal(key, protos.mean.shape))
    return protos.replace(mean=unit_CD, count=jnp.ones_like(protos.count))


def protonorm(
    spec: Spec,
    *,
    pull: Pull = Pull(),
    alignment: Transform = THOMSON,
    upscale: Positive = 100.0,
    aggregate: Callable = kernels.mean_over_clients,
    on_server: Transform = IDENTITY,
    initial: Callable = no_initial_prototypes,
    privacy: Privacy = NONE,
) -> Method:
    """ProtoNorm; `alignment=IDENTITY, upscale=1.0` is FedProto.

    Args:
      pull, aggregate, privacy: as in `fedproto`.
      alignment: alignment of the mean prototypes on the sphere, by the server.
      upscale: gamma of Eq. 15 (paper: 100 for CIFAR-10, 200 for CIFAR-100 and
        Flowers-102, 400 for Tiny ImageNet; released code: 80).
      on_server: transform of the mean prototypes before the alignment.
      initial: key -> global prototypes of round 1: none, or random unit vectors.
    """
    method = fedproto(
        spec,
        pull=pull,
        aggregate=aggregate,
        on_server=chain(on_server, alignment),
        upscale=upscale,
        privacy=privacy,
    )

    def init_server(net, key):
        server = method.init_server(net, key)
        return server._replace(protos=initial(server.protos, key))

    return dataclasses.replace(method, init_server=init_server, title="ProtoNorm")
