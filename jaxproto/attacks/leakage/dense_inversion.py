"""Images from the change of a dense first layer, in closed form.

Kernel and bias of a unit j change by sums over the examples that activate it. Where
one example alone does so, with gradients g in one or more local steps,

    dW_j = sum g x,   db_j = sum g,   hence   x = dW_j / db_j

(Phong et al., ATIS 2017; Boenisch et al., EuroS&P 2023). This holds for SGD with any
number of steps, with momentum or without, so a whole round of local training is
attacked, too.

Threat model: an honest-but-curious server that knows its broadcast. It keeps the
candidates whose pixels all have values of public pixels, because ratios that are no
images have such values only by chance. Training images only serve to count the results.

Limits: a first layer that is dense and has a bias. Adam and weight decay change the
ratio; int8 and noise spoil it. A unit that several examples activate gives their
weighted mean, which is counted as a failure.
"""

from typing import NamedTuple

import jax
import numpy as np
from flax.traverse_util import flatten_dict, unflatten_dict

from jaxproto.attacks.leakage import next_upload
from jaxproto.attacks.leakage.attack_cases import AttackCase
from jaxproto.attacks.leakage.attacker import examples
from jaxproto.core.jax_settings import make_key
from jaxproto.core.types import Array, Net, Tree

PSNR = 40.0  # dB from which an image counts as returned
TOLERANCE = 0.05  # of a pixel, in distances of neighbouring values
LEVELS = 256  # values of pixels at most
LEAVES = "kernel", "bias"
COLUMNS = "examples", "images back", "kept", "true"
NOTE = (
    f"images back: training images that dW/db of a unit matches with {PSNR:g} dB PSNR "
    "or more; kept: candidates whose pixels all have a value of public images; true: "
    "the kept ones that are a training image. These columns are sums over clients and "
    "runs."
)


class FirstLayer(NamedTuple):
    """Dense layer with a bias that reads the input of a network."""

    path: tuple[str, ...]  # of its kernel and bias in the parameters
    order_F: np.ndarray  # position in the flat input that each row of the kernel reads

    def of(self, params: Tree) -> dict[str, Array]:
        """Returns kernel [F, H] and bias [H] of a client's parameters."""
        flat = flatten_dict(params)
        return {leaf: flat[*self.path, leaf] for leaf in LEAVES}

    def replaced(self, params: Tree, layer: Tree) -> Tree:
        """Returns the parameters with another layer in this place."""
        leaves = {(*self.path, leaf): layer[leaf] for leaf in LEAVES}
        return unflatten_dict(flatten_dict(params) | leaves)


def first_layer(net: Net, params: Tree, norm: Tree, shape) -> FirstLayer | None:
    """Returns the first layer of a network; None if it is not dense or has no bias.

    The layer is found by the gradient of one random example: dW_j / db_j equals it.
    """
    x = jax.random.uniform(make_key(0), (1, *shape), minval=-1.0)

    def total(params):
        return net.apply(params["net"], norm["net"], x, False).logits.sum()

    grads, flat = flatten_dict(jax.grad(total)(params)), np.asarray(x).ravel()
    for (*path, leaf), weights in grads.items():
        bias = grads.get((*path, "bias"))
        if leaf != "kernel" or bias is None or weights.shape != (flat.size, bias.size):
            continue
        unit = np.abs(bias).argmax()
        ratio = np.asarray(weights[:, unit] / (bias[unit] or 1.0))
        layer = FirstLayer(tuple(path), np.empty(flat.size, int))
        layer.order_F[ratio.argsort()] = flat.argsort()
        if np.allclose(ratio, flat[layer.order_F], atol=1e-3):
            return layer
    return None


def invert_first_layer(layer: FirstLayer, before: Tree, after: Tree) -> np.ndarray:
    """Returns dW_j / db_j of every unit that moved, as flat inputs [J, F]."""
    old, new = layer.of(before), layer.of(after)
    kernel, bias = (
        np.asarray(new[k], float) - np.asarray(old[k], float) for k in LEAVES
    )
    moved = bias != 0
    inputs_JF = np.empty((moved.sum(), len(kernel)))
    inputs_JF[:, layer.order_F] = (kernel[:, moved] / bias[moved]).T
    return inputs_JF


def has_public_values(found_JF: np.ndarray, public: np.ndarray) -> np.ndarray:
    """Returns which candidates [J] only have values that public pixels have."""
    values: np.ndarray = np.unique(public)
    if not 1 < values.size <= LEVELS:
        return np.zeros(len(found_JF), bool)
    right = np.searchsorted(values, found_JF).clip(1, values.size - 1)
    distance = np.minimum(
        np.abs(found_JF - values[right]), np.abs(found_JF - values[right - 1])
    )
    return (distance <= TOLERANCE * np.diff(values).min()).all(1)


def count_images(case: AttackCase) -> dict:
    """Returns the counts of COLUMNS; None in each without a dense first layer."""
    captured, exp = case.captured, case.exp
    before, shape = captured.stages.received, exp.dataset.x.shape[1:]
    after = next_upload.network(captured, case.messages[1])
    layer = first_layer(captured.net, before.params, before.norm, shape)
    if layer is None or after is None:
        return dict.fromkeys(COLUMNS)
    candidates = invert_first_layer(layer, before.params, after)
    true = examples(exp, captured.rows)[0].reshape(len(captured.rows), -1)
    equal = psnr_of_pairs(candidates, true) >= PSNR
    kept = has_public_values(candidates, case.known.public[0])
    counts = len(true), equal.any(0).sum(), kept.sum(), equal[kept].any(1).sum()
    return dict(zip(COLUMNS, map(int, counts), strict=True))


def psnr_of_pairs(found_JF: np.ndarray, true_MF: np.ndarray) -> np.ndarray:
    """Returns the PSNR [J, M] of every candidate and image, of pixels in [-1, 1]."""
    square = (found_JF**2).sum(1)[:, None] + (true_MF**2).sum(1)
    error = (square - 2 * found_JF @ true_MF.T) / found_JF.shape[1]
    return 10 * np.log10(4 / np.maximum(error, 1e-12))
