"""Inversion of a weight update to images.

Threat model: an honest-but-curious server of a method whose uploads hold a whole
network. It knows what it broadcast, the loss, the optimiser, the size of a batch and
the number of steps, and holds public examples of the same distribution. The client
takes the given number of local steps here, not the run's own, which are many more.

Labels come from the last layer (`labels.py`); then images are sought whose simulated
training changes the network in the same direction:

    x = argmin 1 - cos(change(x, labels), change sent) + tv * TV(x)
                                                  (Geiping et al., NeurIPS 2020)

by Adam, from noise, the restart with the least loss. Several local steps are simulated
one after the other, with the labels dealt in order of class, as nobody knows which
example came in which step.

Limits: success falls with the batch and with the steps, and a full round of local
training is out of reach. The baseline is the public mean image of the true class; an
image below that tells less than the label. The loss is the method's own, pull and all,
but state that only the client has (BatchNorm statistics) is taken as known.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree

from jaxproto.client import LocalTraining, batch_value_and_grad
from jaxproto.contrib.leakage import head_change, label_inference, next_upload, scores
from jaxproto.contrib.leakage.attacker import AttackerKnowledge, class_means, examples
from jaxproto.contrib.leakage.next_upload import CapturedUpload
from jaxproto.contrib.leakage.prototype_inversion import total_variation
from jaxproto.method import Method
from jaxproto.types import Array, Batch, Client, Net, Tree

RATE, TV, ITERATIONS, RESTARTS = 0.1, 1e-3, 600, 2


@dataclasses.dataclass(frozen=True, eq=False)
class AttackTask:
    """What is trained how; programs are kept for this very object."""

    method: Method
    opt: optax.GradientTransformation
    net: Net
    gradient: Callable = batch_value_and_grad  # of the client, but for its noise


def simulate_training(
    task: AttackTask, local: LocalTraining, before: Client, down: Tree, x, y
) -> Tree:
    """A client's parameters after a step on each of the batches x [S, B, ...]."""
    params, norm, opt = before.params, before.norm, local.opt.init(before.params)
    for x_B, y_B in zip(x, y, strict=True):
        batch = Batch(x_B, y_B, jnp.ones(len(y_B)), jax.random.key(0))
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
    """Images [S, B, ...] whose training changes the network likewise, and the loss."""
    local, adam = LocalTraining(task.opt, factor=factor), _adam()
    known, _ = ravel_pytree(before.params)

    def loss(x):
        after = ravel_pytree(simulate_training(task, local, before, down, x, y))[0]
        far = optax.losses.cosine_distance(after - known, change, epsilon=1e-12)
        return far + TV * total_variation(x).mean()

    def step(_, state):
        x, kept = state
        updates, kept = adam.update(jax.grad(loss)(x), kept)
        return jnp.clip(optax.apply_updates(x, updates), -1.0, 1.0), kept

    x, _ = jax.lax.fori_loop(0, ITERATIONS, step, (x, adam.init(x)))
    return x, loss(x)


def _adam() -> Any:
    return optax.adam(optax.cosine_decay_schedule(RATE, ITERATIONS))


def probabilities(
    made: CapturedUpload, params: Tree, has: AttackerKnowledge
) -> np.ndarray:
    """What a network says of public examples of each class [C, C], on average."""
    x, y = has.public
    norm = made.stages.received.norm["net"]
    logits = jax.jit(made.net.apply, static_argnums=3)(params["net"], norm, x, False)
    said = np.asarray(jax.nn.softmax(logits.logits))
    return class_means((said, y), said.shape[1])


def bias_gradient(
    made: CapturedUpload, up: Tree, rate: float, steps: int
) -> np.ndarray | None:
    """Minus the mean gradient by the last bias; None where that is not sent."""
    found = head_change.head_change(made, up)
    return None if found is None else found.bias / (rate * steps)


def invert_update(
    task: AttackTask,
    made: CapturedUpload,
    up: Tree,
    has: AttackerKnowledge,
    size: tuple[int, int],
    seed: int,
) -> tuple[dict, dict[str, np.ndarray], np.ndarray] | None:
    """Images from a weight update.

    Args:
      task: of the cohort.
      made: an upload after as many steps of as many examples as `size` says.
      up: the message as the server has it.
      size: examples of a batch, and steps.

    Returns:
      A row of numbers, the images by name (true ones first) and their classes; None
      where no network is sent.
    """
    before, exp, (batch, steps) = made.stages.received, made.next.run.exp, size
    sent, number = next_upload.network(up, before.params), batch * steps
    if sent is None:
        return None
    rate = float(made.next.run.config.optimizer.learning_rate * made.next.local.factor)
    pushed = bias_gradient(made, up, rate, steps)
    if pushed is None:
        return None
    said = probabilities(made, before.params, has)
    guessed = label_inference.restore_labels(pushed, said, number)
    change = ravel_pytree(sent)[0] - ravel_pytree(before.params)[0]
    found = _images(task, made, change, guessed.reshape(steps, batch), seed)
    x, y = examples(exp, made.rows)
    order = np.argsort(y, kind="stable")
    x, y = x[order], y[order]
    known = class_means(has.public, exp.spec.num_classes)[y]
    images = {
        "client's": x,
        "public mean": known,
        "found": scores.match_images(found, x),
    }
    row = {
        "batch": batch,
        "steps": steps,
        "labels right": label_inference.label_accuracy(
            guessed, y, exp.spec.num_classes
        ),
        "psnr": scores.psnr(images["found"], x),
        "psnr of public mean": scores.psnr(known, x),
        "ssim": scores.ssim(images["found"], x),
        "ssim of public mean": scores.ssim(known, x),
    }
    return row, images, y


def _images(
    task: AttackTask, made: CapturedUpload, change: Array, y_SB: np.ndarray, seed: int
) -> np.ndarray:
    """The best of several restarts, by loss."""
    exp, local, stages = made.next.run.exp, made.next.local, made.stages
    shape = (*y_SB.shape, *exp.dataset.x.shape[1:])
    key, found = jax.random.fold_in(jax.random.key(seed), made.id), []
    sought = {"factor": jnp.float32(local.factor), "change": change, "y": y_SB}
    for i in range(RESTARTS):
        start = jax.random.uniform(jax.random.fold_in(key, i), shape, minval=-1)
        found.append(
            match_update(task, stages.received, made.next.down, x=start, **sought)
        )
    x, loss = (np.stack(jax.device_get(part)) for part in zip(*found, strict=True))
    return x[loss.argmin()].reshape(-1, *shape[2:])
