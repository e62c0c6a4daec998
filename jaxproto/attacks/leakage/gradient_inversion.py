"""Inversion of a weight update to images.

Threat model: an honest-but-curious server of a method whose uploads contain a whole
network. It knows its broadcast, the loss, the optimiser, the batch size and the number
of steps, and has public examples of the same distribution. The client takes the given
number of local steps, fewer than those of the run.

Labels come from the last layer (`label_inference.py`). Images are optimised so that
training on them changes the network in the direction of the update:

    x = argmin 1 - cos(change(x, labels), change sent) + tv * TV(x)
                                                  (Geiping et al., NeurIPS 2020)

by Adam from noise; the restart with the least loss wins. Several local steps are
simulated in sequence, with labels in order of class because the true order is unknown.

Limits: success falls with batch size and steps; only `dense_inversion.py` attacks full
rounds. The baseline is the public mean image of the true class; a worse image reveals
less than the label. The loss is that of the method with all its terms, but state that
only the client has (BatchNorm statistics) is assumed known.
"""

import dataclasses
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from jaxproto.attacks.leakage import head_change, label_inference, next_upload, scores
from jaxproto.attacks.leakage.attack_cases import AttackCase, Images
from jaxproto.attacks.leakage.attacker import class_means, examples
from jaxproto.attacks.leakage.prototype_inversion import (
    descend,
    restarts,
    total_variation,
)
from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method
from jaxproto.core.types import Array, Batch, Client, Net, Tree
from jaxproto.round.client import LocalTraining, batch_value_and_grad

RATE, TV, ITERATIONS, RESTARTS = 0.1, 1e-3, 600, 2
SCORES = "labels right", *scores.SIMILARITY


@dataclasses.dataclass(frozen=True, eq=False)
class AttackTask:
    """Training that an attack simulates; compiled programs are cached per object."""

    method: Method
    opt: optax.GradientTransformation
    net: Net
    gradient: Callable = batch_value_and_grad  # of the client, without privacy noise


def simulate_training(
    task: AttackTask, local: LocalTraining, before: Client, down: Tree, x, y
) -> Tree:
    """Returns the parameters after one step on each of the batches x [S, B, ...]."""
    params, norm, opt = before.params, before.norm, local.opt.init(before.params)
    for x_B, y_B in zip(x, y, strict=True):
        batch = Batch(x_B, y_B, jnp.ones(len(y_B)), make_key(0))
        gradient = task.gradient(partial(task.method.loss, task.net))
        (_, aux), grads = gradient(params, norm, batch, down, before)
        updates, opt = local.opt.update(task.method.transform_grads(grads), opt, params)
        params = optax.apply_updates(params, optax.tree.scale(local.factor, updates))
        norm = aux.norm
    return params


@partial(jax.jit, static_argnames="task")
def match_update(
    task: AttackTask,
    before: Client,
    down: Tree,
    *,
    factor: Array,
    change: Array,
    x: Array,
    y: Array,
) -> tuple[Array, Array]:
    """Returns images [S, B, ...] optimised to reproduce an update, and their loss."""
    local = LocalTraining(task.opt, factor=factor)
    known, _ = ravel_pytree(before.params)

    def loss(x):
        after = ravel_pytree(simulate_training(task, local, before, down, x, y))[0]
        mismatch = optax.losses.cosine_distance(after - known, change, epsilon=1e-12)
        return mismatch + TV * total_variation(x).mean()

    adam = optax.adam(optax.cosine_decay_schedule(RATE, ITERATIONS))
    x = descend(loss, x, adam, ITERATIONS)
    return x, loss(x)


def invert_update(
    task: AttackTask, case: AttackCase, size: tuple[int, int]
) -> tuple[dict, Images] | None:
    """Inverts a weight update to images.

    Args:
      case: Upload after training of the given `size`.
      size: Batch size and number of steps.

    Returns:
      A row of scores and the images; None if no network is sent.
    """
    captured, known, exp, (batch, steps) = case.captured, case.known, case.exp, size
    params, up = captured.stages.received.params, case.messages[1]
    sent = next_upload.network(captured, up)
    head = head_change.head_change(captured, up)
    if sent is None or head is None:
        return None
    guessed = label_inference.restore_labels(
        head_change.push(captured, head, steps),
        label_inference.predictions(case, params),
        batch * steps,
    )
    change = ravel_pytree(sent)[0] - ravel_pytree(params)[0]
    inverted = _images(task, case, change, guessed.reshape(steps, batch))
    x, y = examples(exp, captured.rows)
    order = np.argsort(y, kind="stable")
    x, y = x[order], y[order]
    public = class_means(known.public, exp.spec.num_classes)[y]
    matched = scores.match_images(inverted, x)
    images = {"client's": x, "public mean": public, "found": matched}
    accuracy = label_inference.label_accuracy(guessed, y, exp.spec.num_classes)
    similarity = scores.similarity(matched, public, x)
    return {"labels right": accuracy, **similarity}, (images, y)


def _images(
    task: AttackTask, case: AttackCase, change: Array, y_SB: np.ndarray
) -> np.ndarray:
    """Returns the images [N, ...] of the restart with the least loss."""
    next, received = case.captured.next, case.captured.stages.received
    shape = (*y_SB.shape, *case.exp.dataset.x.shape[1:])
    key = jax.random.fold_in(make_key(case.seed), case.captured.id)
    options = {"factor": jnp.float32(next.local.factor), "change": change, "y": y_SB}
    match = partial(match_update, task, received, next.down, **options)
    x, loss = restarts(lambda start: match(x=start), shape, key, RESTARTS)
    return x[loss.argmin()].reshape(-1, *shape[2:])
