"""Local training and its optimiser, from a configuration."""

import inspect
from collections.abc import Callable

import jax.numpy as jnp
import optax

from jaxproto.client import LocalTraining, constant_schedule
from jaxproto.config import registries
from jaxproto.errors import UserError, choose_from
from jaxproto.hyperparameters import is_concrete, is_zero

SCHEDULES = {  # name -> factor per round, rounds -> round -> factor
    "constant": lambda decay, rounds: constant_schedule,
    "exponential": lambda decay, rounds: lambda r: jnp.power(decay, jnp.float32(r)),
    "cosine": lambda decay, rounds: optax.cosine_decay_schedule(1.0, rounds),
}


def build_local_training(config) -> LocalTraining:
    """Local training with its options resolved."""
    local = config.local

    def chosen(path, name, there):
        return there[choose_from(path, name, there)]

    return LocalTraining(
        opt=build_optimizer(config.optimizer),
        epochs=local.epochs,
        batch_size=local.batch_size,
        order=chosen("local.order", local.order, registries.ORDERS),
        steps_per_epoch=chosen(
            "local.short", local.short, registries.SHORT_CLIENT_POLICIES
        ),
        init_opt_state=chosen(
            "local.optimizer_state", local.optimizer_state, registries.OPTIMIZER_STATES
        ),
        schedule=build_schedule(config.optimizer, config.rounds),
        init_key=chosen("model.init", config.model.init, registries.INIT_KEYS),
    )


def build_schedule(config, rounds: int) -> Callable:
    """How the learning rate changes from round to round: round -> factor of it."""
    name = choose_from("optimizer.schedule", config.schedule, SCHEDULES)
    if is_concrete(config.decay) and config.decay != 1 and name != "exponential":
        raise UserError(
            f"optimizer.decay is {config.decay}, but optimizer.schedule {name!r} does "
            "not use it; set the schedule to exponential, or decay to 1."
        )
    return SCHEDULES[name](config.decay, rounds)


def optax_optimizers() -> dict[str, Callable]:
    """Every function of optax that makes an optimiser from a learning rate alone.

    Without lbfgs, which asks for the loss as a function.
    """
    found: dict[str, Callable] = {}
    for name, f in vars(optax).items():
        if inspect.isfunction(f) and not name.startswith(("_", "scale_by_", "lbfgs")):
            takes = inspect.signature(f).parameters
            needs = {k for k, p in takes.items() if p.default is p.empty}
            if "learning_rate" in takes and needs <= {"learning_rate"}:
                found[name] = f
    return found


def build_optimizer(config) -> optax.GradientTransformation:
    """Gradient clipping, L2 weight decay, then the optimiser, each only if asked."""
    name = choose_from("optimizer", config.name, optax_optimizers())
    off = {
        key: is_zero(getattr(config, key))
        for key in ("momentum", "weight_decay", "clip_norm")
    }
    if not off["momentum"] and name != "sgd":
        raise UserError(
            f"optimizer.momentum is {config.momentum}, but {name!r} takes none; "
            "set it to 0 or use sgd."
        )
    momentum = {} if off["momentum"] else {"momentum": config.momentum}
    steps = [optax_optimizers()[name](config.learning_rate, **momentum)]
    if not off["weight_decay"]:
        steps.insert(0, optax.add_decayed_weights(config.weight_decay))
    if not off["clip_norm"]:
        steps.insert(0, optax.clip_by_global_norm(config.clip_norm))
    return optax.chain(*steps) if len(steps) > 1 else steps[0]
