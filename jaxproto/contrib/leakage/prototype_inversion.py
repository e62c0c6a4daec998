"""Inversion of a client's prototypes to images.

Threat model: an honest-but-curious server that has the upload, knows the protocol
(masks, whether rows are scaled by counts), holds public images of the same distribution
and has a network: the client's own (`body=own`: the worst case, which methods that
share bodies give away, and the others do not) or that of another client of the same
architecture (`other`: a server that colludes with one).

    x_c = argmin |f(x) - p_c|^2 / |p_c|^2 + tv * TV(x)   (Mahendran, Vedaldi, CVPR 2015)

by Adam on the image, from noise, several restarts of which the attacker keeps the one
with the least loss, and from the public mean image of the class. Where rows are scaled
by a count that is not sent, the distance is 1 - cosine; of compressed rows, over the
coordinates of the class's mask.

Limits: what is found is one image with nearly these features, of many; a prototype is
a mean, so that success is judged by the mean of the client's images of the class, and
it says little of one image where many are behind it. The public mean image, which needs
no upload, is the baseline: only what is better than that has leaked. Networks with
BatchNorm are used with the client's statistics. Nothing here is a bound: a better
attack may find more.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from jaxproto.contrib.leakage import next_upload, scores
from jaxproto.contrib.leakage.attacker import AttackerKnowledge, class_means
from jaxproto.contrib.leakage.next_upload import CapturedUpload, Embedding
from jaxproto.summary import host_prototypes
from jaxproto.summary.host_prototypes import HostProtos
from jaxproto.types import Array, Client, Tree

RATE, TV = 0.05, 1e-2  # of Adam on an image; weight of total variation
STEPS, RESTARTS = 300, 4
STARTS = "from public mean", "from noise"
SCORES = "psnr", "psnr of public mean", "ssim", "ssim of public mean", "nearest is own"


class PrototypeTarget(NamedTuple):
    """Prototypes in the space of features, and how they are compared."""

    mean: np.ndarray  # [C, D]
    there: np.ndarray  # [C]
    mask: np.ndarray  # [C, D] coordinates that are sent
    scaled: bool  # by a number that the server does not know


def prototype_target(
    made: CapturedUpload, sent: tuple[Tree, Tree]
) -> PrototypeTarget | None:
    """What messages on the wire say of classes; None without prototypes."""
    found = next_upload.as_server_reads(made, sent)
    if found is None:
        return None
    exp, host = (
        made.next.run.exp,
        HostProtos(np.asarray(found.mean), np.asarray(found.count)),
    )
    mask_CD = host_prototypes.masks(exp.method, exp.spec.feat_dim)
    whole = host_prototypes.expand_masked(host, mask_CD)
    if mask_CD is None or whole is host:
        mask_CD = np.ones(whole.mean.shape, bool)
    there = np.asarray(found.count) > 0
    return PrototypeTarget(whole.mean, there, mask_CD, is_scaled(made, mask_CD))


def is_scaled(made: CapturedUpload, mask_CD: np.ndarray) -> bool:
    """Whether the method multiplies rows by counts that it does not send.

    It is a property of the protocol, read here from what the client remembers.
    """
    exp, stages = made.next.run.exp, made.stages
    said = next_upload.prototypes(stages.early, stages.up)
    if said is not None and exp.method.release is not None:
        return not next_upload.has_weight_column(made, said)
    own = host_prototypes.find_prototypes(stages.trained.memory)
    if said is None or own is None or said.disclosed:
        return False
    host = HostProtos(np.asarray(said.mean), np.asarray(said.count))
    whole = host_prototypes.expand_masked(
        host, host_prototypes.masks(exp.method, exp.spec.feat_dim)
    ).mean
    there = (host.count > 0)[:, None] * mask_CD
    return not np.allclose(whole * there, np.asarray(own.mean) * there, rtol=1e-3)


def distance(feat: Array, mean: Array, mask: Array, scaled: bool) -> Array:
    """Of features [..., D] to prototypes; relative to their size."""
    feat, mean = feat * mask, mean * mask
    if scaled:
        return optax.losses.cosine_distance(feat, mean, epsilon=1e-8)
    size = jnp.maximum(jnp.sum(mean**2, -1), 1e-8)
    return jnp.sum((feat - mean) ** 2, -1) / size


def total_variation(x: Array) -> Array:
    """Mean absolute difference of neighbours, of images [..., H, W, channels]."""
    down, right = jnp.diff(x, axis=-3), jnp.diff(x, axis=-2)
    axes = (-3, -2, -1)
    return jnp.mean(jnp.abs(down), axes) + jnp.mean(jnp.abs(right), axes)


@partial(jax.jit, static_argnames=("embedding", "scaled", "steps"))
def optimise_images(
    embedding: Embedding,
    body: Client,
    mean: Array,
    mask: Array,
    start: Array,
    *,
    scaled: bool = False,
    steps: int = STEPS,
    tv: float = TV,
) -> tuple[Array, Array]:
    """Images [C, ...] whose features are near the prototypes, and their losses [C]."""
    opt: Any = optax.adam(RATE)

    def losses(x):
        feat = embedding(body, x)
        return distance(feat, mean, mask, scaled) + tv * total_variation(x)

    def step(_, state):
        x, kept = state
        updates, kept = opt.update(jax.grad(lambda x: losses(x).sum())(x), kept)
        return jnp.clip(optax.apply_updates(x, updates), -1.0, 1.0), kept

    x, _ = lax.fori_loop(0, steps, step, (start, opt.init(start)))
    return x, losses(x)


def from_noise(
    embedding: Embedding, body: Client, goal: PrototypeTarget, shape, key: Array
) -> np.ndarray:
    """The best of several restarts for each class, by loss."""
    found = []
    for i in range(RESTARTS):
        start = jax.random.uniform(jax.random.fold_in(key, i), shape, minval=-1)
        found.append(
            optimise_images(
                embedding, body, goal.mean, goal.mask, start, scaled=goal.scaled
            )
        )
    x, loss = (np.stack(jax.device_get(part)) for part in zip(*found, strict=True))
    return x[loss.argmin(0), np.arange(shape[0])]


def nearest_is_own(
    found: np.ndarray, classes: np.ndarray, has: AttackerKnowledge
) -> float:
    """Share of found images whose nearest one, of its class, is the client's.

    Among the members and as many outsiders: 0.5 is guessing.
    """
    (own_x, own_y), (x, y) = has.members, has.outsiders
    hits = []
    for image, c in zip(found, classes, strict=True):
        if not (own_y == c).any():
            continue
        near = [
            np.min(np.sum((a[b == c] - image) ** 2, (1, 2, 3)))
            for a, b in ((own_x, own_y), (x, y))
        ]
        hits.append(near[0] < near[1])
    return float(np.mean(hits)) if hits else float("nan")


def invert_prototypes(
    made: CapturedUpload,
    sent: tuple[Tree, Tree],
    has: AttackerKnowledge,
    body: Client,
    seed: int,
) -> tuple[list[dict], dict[str, np.ndarray], np.ndarray] | None:
    """Images from prototypes.

    Args:
      sent: messages as the server has them.
      body: the client whose network the attacker has.

    Returns:
      Two rows of numbers, the images by name (true means first) and their classes,
      which are those that the client has and its upload shows; without one nothing
      is sought, and numbers are None. None where no prototypes are sent.
    """
    goal = prototype_target(made, sent)
    if goal is None:
        return None
    classes, key = len(goal.mean), jax.random.fold_in(jax.random.key(seed), made.id)
    own = np.isin(np.arange(classes), has.own[1])  # noise may show others
    there = np.flatnonzero(goal.there & own)
    if not len(there):
        nothing = {"classes": 0, **dict.fromkeys(SCORES)}
        return [{"start": start, **nothing} for start in STARTS], {}, there
    shown, public = class_means(has.own, classes), class_means(has.public, classes)
    embedding = made.embedding
    warm, _ = optimise_images(
        embedding, body, goal.mean, goal.mask, public, scaled=goal.scaled
    )
    images = {
        "client's mean": shown,
        "public mean": public,
        "from public mean": np.asarray(warm),
        "from noise": from_noise(embedding, body, goal, public.shape, key),
    }
    images = {name: x[there] for name, x in images.items()}
    return [_judged(start, images, there, has) for start in STARTS], images, there


def _judged(
    start: str, images: dict, there: np.ndarray, has: AttackerKnowledge
) -> dict:
    """How near the images found are."""
    found, true, known = (images[n] for n in (start, "client's mean", "public mean"))
    scored = (
        scores.psnr(found, true),
        scores.psnr(known, true),
        scores.ssim(found, true),
        scores.ssim(known, true),
        nearest_is_own(found, there, has),
    )
    named = dict(zip(SCORES, scored, strict=True))
    return {"start": start, "classes": len(there), **named}
