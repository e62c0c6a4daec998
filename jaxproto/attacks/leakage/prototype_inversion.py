"""Inversion of prototypes to images.

Threat model: an honest-but-curious server that has the upload, knows the protocol
(masks, whether rows are scaled by counts), has public images of the same distribution
and has a network: that of the client (`body=own`, the worst case, which holds for
methods that share bodies) or that of another client of the same architecture (`other`:
a server that colludes with one).

    x_c = argmin |f(x) - p_c|^2 / |p_c|^2 + tv * TV(x)   (Mahendran, Vedaldi, CVPR 2015)

by Adam on the image, from noise (the best of several restarts) and from the public mean
image of the class. For rows scaled by a count that is not sent, the distance is 1 -
cosine; for compressed rows, it covers the coordinates in the mask of the class.

Limits: many images have nearly these features. A prototype is a mean, so scores compare
with the mean image of the class and say little of single images. The baseline is the
public mean image, which needs no upload: only a better image is a leak. BatchNorm uses
the statistics of the client. These results are no bound: a better attack may find more.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax

from jaxproto.attacks.leakage import next_upload, scores
from jaxproto.attacks.leakage.attack_cases import AttackCase, AttackResult
from jaxproto.attacks.leakage.attacker import AttackerKnowledge, class_means
from jaxproto.attacks.leakage.next_upload import CapturedUpload, Embedding
from jaxproto.core.jax_settings import make_key
from jaxproto.core.types import Array, Client, Protos
from jaxproto.features.privacy import guarantee as privacy
from jaxproto.summary import host_prototypes
from jaxproto.summary.host_prototypes import HostProtos
from jaxproto.wrappers.privacy import OFF, release

RATE, TV = 0.05, 1e-2  # of Adam on an image; weight of total variation
STEPS, RESTARTS = 300, 4
STARTS = "from public mean", "from noise"
SCORES = *scores.SIMILARITY, "nearest is own"


class PrototypeTarget(NamedTuple):
    """Prototypes in feature space, and how features are compared with them."""

    mean: np.ndarray  # [C, D]
    present: np.ndarray  # [C] classes with a prototype
    mask: np.ndarray  # [C, D] coordinates that are sent
    scaled: bool  # by a factor that the server does not know
    counts: np.ndarray | None = None  # [C] examples, if they are sent


def prototype_target(case: AttackCase) -> PrototypeTarget | None:
    """Returns the prototypes in received messages; None without any.

    Under privacy, they are noisy sums of rows. A class whose weight is not clearly
    above 0 has no prototype.
    """
    protos = next_upload.prototypes(*case.messages)
    config = case.captured.next.run.config
    if protos is None:
        return None
    if config.privacy.unit != OFF:
        weighed = has_weight_column(case.captured, protos)
        rows = release.MEANS._replace(weighed=weighed)
        deviation = float(privacy.privacy_of(config).deviation)
        protos = jax.device_get(release.denoised_means(protos.mean, deviation, rows))
    spec, method = case.exp.spec, case.exp.method
    host = HostProtos(np.asarray(protos.mean), np.asarray(protos.count))
    mask_CD = host_prototypes.masks(method, spec.feat_dim)
    expanded = host_prototypes.expand_masked(host, mask_CD)
    if mask_CD is None or expanded is host:
        mask_CD = np.ones(expanded.mean.shape, bool)
    scaled = is_scaled(case.captured, mask_CD)
    counts = np.asarray(host.count, float) if protos.disclosed else None
    return PrototypeTarget(expanded.mean, host.count > 0, mask_CD, scaled, counts)


def has_weight_column(captured: CapturedUpload, protos: Protos) -> bool:
    """Returns whether private rows have an additional column of weights."""
    down = host_prototypes.find_prototypes(captured.next.down)
    return bool(down is not None and protos.mean.shape[-1] > down.mean.shape[-1])


def is_scaled(captured: CapturedUpload, mask_CD: np.ndarray) -> bool:
    """Returns whether the method scales rows by counts that it does not send.

    The memory of the client, which has unscaled rows, reveals this property.
    """
    method, stages = captured.next.run.exp.method, captured.stages
    protos = next_upload.prototypes(stages.early, stages.up)
    if protos is not None and method.release is not None:
        return not has_weight_column(captured, protos)
    memory = host_prototypes.find_prototypes(stages.trained.memory)
    if protos is None or memory is None or protos.disclosed:
        return False
    host = HostProtos(np.asarray(protos.mean), np.asarray(protos.count))
    expanded = host_prototypes.expand_masked(host, mask_CD).mean
    shown = (host.count > 0)[:, None] * mask_CD
    return not np.allclose(expanded * shown, np.asarray(memory.mean) * shown, rtol=1e-3)


def distance(feat: Array, mean: Array, mask: Array, scaled: bool) -> Array:
    """Returns distances of features [..., D] to prototypes.

    They are squared and relative to the prototypes, or 1 - cosine if rows are scaled.
    """
    feat, mean = feat * mask, mean * mask
    if scaled:
        return optax.losses.cosine_distance(feat, mean, epsilon=1e-8)
    square_norm = jnp.maximum(jnp.sum(mean**2, -1), 1e-8)
    return jnp.sum((feat - mean) ** 2, -1) / square_norm


def total_variation(x: Array) -> Array:
    """Returns the mean absolute pixel differences of images [..., H, W, channels]."""
    down, right = jnp.diff(x, axis=-3), jnp.diff(x, axis=-2)
    axes = (-3, -2, -1)
    return jnp.mean(jnp.abs(down), axes) + jnp.mean(jnp.abs(right), axes)


def descend(loss: Callable, x: Array, opt: Any, steps: int) -> Array:
    """Returns images in [-1, 1] after steps of an optimiser on a loss."""

    def step(_, state):
        x, opt_state = state
        updates, opt_state = opt.update(jax.grad(loss)(x), opt_state)
        return jnp.clip(optax.apply_updates(x, updates), -1.0, 1.0), opt_state

    return lax.fori_loop(0, steps, step, (x, opt.init(x)))[0]


def restarts(
    optimise: Callable, shape: tuple[int, ...], key: Array, count: int
) -> list[np.ndarray]:
    """Returns the images and losses [count, ...] of optimisations from noise."""
    keys = (jax.random.fold_in(key, i) for i in range(count))
    starts = (jax.random.uniform(key, shape, minval=-1) for key in keys)
    results = [optimise(start) for start in starts]
    return [np.stack(jax.device_get(part)) for part in zip(*results, strict=True)]


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
    """Returns images [C, ...] optimised towards prototypes, and their losses [C]."""

    def losses(x):
        feat = embedding(body, x)
        return distance(feat, mean, mask, scaled) + tv * total_variation(x)

    x = descend(lambda x: losses(x).sum(), start, optax.adam(RATE), steps)
    return x, losses(x)


def nearest_is_own(
    images: np.ndarray, classes: np.ndarray, known: AttackerKnowledge
) -> float | None:
    """Returns the share of images whose nearest example of the class is a member.

    Candidates are the members and as many outsiders; 0.5 is guessing. Without members
    of these classes, there is no share.
    """
    hits = []
    for image, c in zip(images, classes, strict=True):
        if not (known.members[1] == c).any():
            continue
        distances = [
            np.min(np.sum((x[y == c] - image) ** 2, (1, 2, 3)))
            for x, y in (known.members, known.outsiders)
        ]
        hits.append(distances[0] < distances[1])
    return float(np.mean(hits)) if hits else None


def attack_prototypes(case: AttackCase) -> Iterator[AttackResult]:
    """Inverts prototypes to images of the classes that the client has and sends.

    Scores are None without such classes.
    """
    target = prototype_target(case)
    if target is None:
        return
    known, classes = case.known, len(target.mean)
    key = jax.random.fold_in(make_key(case.seed), case.captured.id)
    # noise may show classes that the client does not have
    held = np.isin(np.arange(classes), known.training[1])
    shown = np.flatnonzero(target.present & held)
    if not len(shown):
        no_scores = {"classes": 0, **dict.fromkeys(SCORES)}
        yield AttackResult([{"start": start, **no_scores} for start in STARTS])
        return
    true = class_means(known.training, classes)
    public = class_means(known.public, classes)
    arguments = case.captured.embedding, case.body, target.mean, target.mask
    optimise = partial(optimise_images, *arguments, scaled=target.scaled)
    from_noise, loss = restarts(optimise, public.shape, key, RESTARTS)
    images = {
        "client's mean": true,
        "public mean": public,
        "from public mean": np.asarray(optimise(public)[0]),
        "from noise": from_noise[loss.argmin(0), np.arange(classes)],  # the best
    }
    images = {name: x[shown] for name, x in images.items()}
    rows = [_score(start, images, shown, known) for start in STARTS]
    yield AttackResult(rows, (images, shown))


def _score(
    start: str, images: dict, classes: np.ndarray, known: AttackerKnowledge
) -> dict:
    """Returns the row of scores of inverted images."""
    inverted, public, true = (
        images[name] for name in (start, "public mean", "client's mean")
    )
    return {
        "start": start,
        "classes": len(classes),
        **scores.similarity(inverted, public, true),
        "nearest is own": nearest_is_own(inverted, classes, known),
    }
