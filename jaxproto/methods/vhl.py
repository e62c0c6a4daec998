"""VHL: FedAvg with virtual examples that all clients share, to align their features.

Tang, Zhang, Shi, He, Han, Chu: Virtual Homogeneity Learning: Defending against Data
Heterogeneity in Federated Learning, ICML 2022, https://arxiv.org/abs/2206.02465.

    L = CE(real) + virtual CE(virtual, labels shifted by C)
        + align SupCon(real and virtual) + contrast SupCon(virtual)

over a batch of real and an equally large one of virtual examples. The head has C + V
outputs. SupCon (Khosla et al., https://arxiv.org/abs/2004.11362) pulls features of one
class together and all others apart; virtual class v counts as real class v, and the
first SupCon moves real features only.

A virtual image of class v is an 8 x 8 image around the class's own mean, enlarged; the
set is a function of a seed, which is all that the server sends of it, once.

Deviations (paper / released code / here), besides those of FedAvg:
- virtual data: images of an untrained StyleGAN2, Gaussian noise as a variant / both /
  Gaussian noise: class means N(0, 1) of 8 x 8 pixels, deviation 0.5, bilinear.
- values of virtual images: not stated / stored as JPEG, which cuts them to [0, 1], then
  (x - 0.5) / 0.25 / as drawn; `stored` cuts and normalises, without JPEG's losses.
- batches of virtual images: not stated / shuffled passes over the set / drawn anew.
- virtual classes: as many as real ones or other numbers / 10, 100 / `virtual_classes`,
  0 for as many as real ones; all classes are equally likely.
- alignment: throughout / while the local epoch is below 5 / throughout.
- BatchNorm: not stated / real and virtual examples in one batch / as the code.
- prediction: of real classes / over all C + V outputs / as the code.
- augmentation: not stated / crops and flips, of virtual images too / none.
- evaluation: - / one test set / as FedAvg here.
- learning rate: decays by 0.992 a round / the same / constant; variant `code` of
  its configuration decays.
- momentum of a client: not stated / continues from its last round / restarts;
  `code` has `local.optimizer_state=keep`.
- BatchNorm statistics: not stated / in the average / local; `statistics=averaged`.
"""

import dataclasses
from functools import partial
from typing import Annotated, NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxproto.core.hyperparameters import (
    MAX_INT,
    NonNegative,
    Seed,
    UpToMillion,
    check_argument,
    or_zero,
)
from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method, own_network
from jaxproto.core.types import Array, ArrayLike, LossAux, Spec
from jaxproto.errors import UserError
from jaxproto.methods import nominal
from jaxproto.methods.fedavg import Statistical, fedavg, local_statistics
from jaxproto.methods.fednh import normalise_rows
from jaxproto.methods.refprotofl import linear
from jaxproto.prototypes import kernels, losses

SMALL, SPREAD = 8, 0.5  # pixels, and deviation of the noise within a class
TEMPERATURE = 0.07  # of SupCon (released code)
MIDDLE, WIDTH = 0.5, 0.25  # by which the released code normalises stored images
Classes = Annotated[int, or_zero("as many as the data have")]


@flax.struct.dataclass(eq=False)  # compared by identity: it is part of a method
class VirtualSeed:
    """Message of the server with the seed of the virtual set, sent once."""

    virtual_seed: ArrayLike  # []


class VirtualData(NamedTuple):
    """Shared set of labelled noise, made from a seed."""

    seed: int
    classes: int
    images: int  # per class
    stored: bool = False  # values as those of image files

    def draw(self, key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Draws a batch of the set: images [B, ...] and virtual classes [B].

        Args:
          key: of the draw.
          shape: of the batch, [B, H, W, channels].
        """
        which_B = jax.random.randint(key, shape[:1], 0, self.classes * self.images)
        return jax.vmap(partial(self.image, shape[1:]))(which_B), which_B // self.images

    def image(self, shape: tuple[int, ...], which: Array) -> Array:
        """Makes image number `which` of the set, equal for all clients."""
        mean_key, noise_key = jax.random.split(make_key(self.seed))
        small = (*(min(SMALL, n) for n in shape[:-1]), shape[-1])
        own = jax.random.fold_in(mean_key, which // self.images)
        mean = jax.random.normal(own, small)
        noise = jax.random.normal(jax.random.fold_in(noise_key, which), small)
        x = jax.image.resize(mean + SPREAD * noise, shape, "bilinear")
        return (jnp.clip(x, 0, 1) - MIDDLE) / WIDTH if self.stored else x


@kernels.float32_matmuls
def sup_con(feat_ND: Array, label_N: Array, mask_N: Array) -> Array:
    """Returns the supervised contrastive loss, the mean over examples with mask 1.

    An example without another of its class contributes 0, as in the released code.
    """
    unit_ND, count = normalise_rows(feat_ND), len(label_N)
    other_NN = (mask_N > 0) & ~jnp.eye(count, dtype=bool)
    like_NN = jnp.where(other_NN, unit_ND @ unit_ND.T / TEMPERATURE, -1e9)
    log_NN = jax.nn.log_softmax(like_NN)
    same_NN = other_NN & (label_N[:, None] == label_N)
    sum_N = jnp.sum(jnp.where(same_NN, log_NN, 0.0), 1)
    return losses.mean_over(-sum_N / jnp.maximum(jnp.sum(same_NN, 1), 1), mask_N)


def only_images(x):
    """Raises UserError unless inputs [B, ...] are images."""
    if len(x.shape) != 4 or not jnp.issubdtype(x.dtype, jnp.floating):
        raise UserError(
            f"vhl shares virtual images, but the inputs are {x.dtype} of shape "
            f"{x.shape[1:]}, not (height, width, channels); choose images as data."
        )


def vhl(
    spec: Spec,
    *,
    virtual: NonNegative = 1.0,
    align: NonNegative = 1.0,
    contrast: NonNegative = 0.1,
    virtual_classes: Classes = 0,
    images: UpToMillion = 200,
    virtual_seed: Seed = 0,
    stored: bool = False,
    statistics: Statistical = local_statistics,
) -> Method:
    """VHL; with all weights 0 it is FedAvg with V more outputs that are always wrong.

    Batch normalisation then still sees the virtual examples.

    Args:
      virtual: weight of the virtual examples' cross-entropy (released scripts).
      align: weight of SupCon over real and virtual examples (released scripts).
      contrast: weight of SupCon over virtual examples alone (released scripts).
      virtual_classes: V, classes of virtual examples; 0: as many as the data set has.
      images: virtual examples per class (released code: 200 or 5000).
      virtual_seed: seed of virtual examples, one for all clients and rounds.
      stored: whether virtual images are cut to [0, 1] and normalised, as those that the
        released code reads from files.

    Raises:
      UserError: a number of classes or images is out of its range.
    """
    check_argument("virtual_classes", virtual_classes, Classes)
    check_argument("images", images, UpToMillion)
    if virtual_classes * images > MAX_INT:
        raise UserError(
            f"method.virtual_classes={virtual_classes} with method.images={images} "
            f"make {virtual_classes * images} virtual examples, but they are numbered "
            f"up to {MAX_INT}; choose fewer."
        )
    noise = VirtualData(
        virtual_seed, virtual_classes or spec.num_classes, images, stored
    )

    def init_client(net, key):
        params, norm, memory = own_network(net, key)
        head = linear(jax.random.fold_in(key, 1), spec.feat_dim, noise.classes)
        return {**params, "virtual": head}, norm, memory

    def outputs(params, out):
        """Returns logits of the C + V outputs; the network has the first C."""
        head = params["virtual"]
        more_BV = out.feat @ head["kernel"] + head["bias"]
        return jnp.concatenate([out.logits, more_BV], 1)

    def loss(net, params, norm, batch, down, client):
        size = len(batch.y)
        x, v_B = noise.draw(jax.random.fold_in(batch.key, 1), batch.x.shape)
        x = jnp.concatenate([batch.x, x])
        out = net.apply(params["net"], norm["net"], x, True, batch.key)
        logits = outputs(params, out)
        real, virtual_feat = out.feat[:size], out.feat[size:]
        ones_B, mask = jnp.ones(size), batch.mask
        total = losses.cross_entropy(logits[:size], batch.y, mask)
        total += virtual * losses.cross_entropy(
            logits[size:], v_B + spec.num_classes, ones_B
        )
        feat = jnp.concatenate([real, lax.stop_gradient(virtual_feat)])
        labels = jnp.concatenate([batch.y, v_B])
        total += align * sup_con(feat, labels, jnp.concatenate([mask, ones_B]))
        total += contrast * sup_con(virtual_feat, v_B, ones_B)
        return total, LossAux({"net": out.norm})

    def predict(net, client, x, down):
        def scores(params):
            norm = client.norm["net"]
            return outputs(params, net.apply(params["net"], norm, x, False))

        return {"head": scores(client.params), "received": scores(down)}

    method = dataclasses.replace(
        fedavg(spec),
        init_client=init_client,
        init_server=lambda net, key: init_client(net, key)[0],
        loss=loss,
        predict=predict,
        setup=VirtualSeed(np.array(virtual_seed, np.uint32)),
        check_input=only_images,
        title="VHL",
        nominal=nominal.networks("net", "virtual"),
    )
    return statistics(method)
