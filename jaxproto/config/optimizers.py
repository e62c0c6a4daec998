"""Optimisers and schedules of the learning rate, from a configuration."""

import functools
import inspect
from collections.abc import Callable

import jax
import jax.numpy as jnp
import optax

from jaxproto import plugins
from jaxproto.config import registries
from jaxproto.core.hyperparameters import is_concrete, is_zero
from jaxproto.core.registry import Registry
from jaxproto.errors import UserError
from jaxproto.methods import METHODS

constant_schedule = plugins.lazy("jaxproto.round.client:constant_schedule")
SCHEDULES: Registry[Callable[..., Callable]] = Registry(
    "schedule",
    {  # name -> factor per round, rounds -> round -> factor
        "constant": lambda decay, rounds: constant_schedule,
        "exponential": lambda decay, rounds: lambda r: jnp.power(decay, jnp.float32(r)),
        "cosine": lambda decay, rounds: optax.cosine_decay_schedule(1.0, rounds),
    },
    group="jaxproto.schedules",
)


def build_schedule(config, rounds: int) -> Callable:
    """Builds the function round -> factor of the learning rate."""
    name, decay = config.schedule, config.decay
    if is_concrete(decay) and decay != 1 and name != "exponential":
        raise UserError(
            f"optimizer.decay is {decay}, but optimizer.schedule {name!r} does not use "
            "it; set the schedule to exponential, or decay to 1."
        )
    return SCHEDULES[name](decay, rounds)


def needs_rounds(method: str, schedule: str) -> str:
    """Returns the field by which a round depends on the total number of rounds, or "".

    Of a method that is not imported the schedule alone is known.
    """
    if reads_rounds(SCHEDULES.get(schedule)):
        return f"optimizer.schedule={schedule}"
    factory = METHODS.get(method, lambda: None)
    own = registries.plain_arguments(factory)
    derived = inspect.signature(factory).parameters.keys() - own
    return f"method.name={method}" if "rounds" in derived else ""


@functools.lru_cache
def reads_rounds(make: Callable | None) -> bool:
    """Returns whether a schedule uses the total number of rounds.

    It is traced with that number as an argument. A schedule that decides by the number
    in Python cannot be traced so; an unknown schedule is taken for one.
    """
    if make is None:
        return True
    try:
        factor = jax.make_jaxpr(lambda rounds, r: make(1.0, rounds)(r))(1, 0).jaxpr
    except Exception:  # a user's schedule may raise anything
        return True
    used = [v for equation in factor.eqns for v in equation.invars] + factor.outvars
    return any(v is factor.invars[0] for v in used)


def optax_optimizers() -> dict[str, Callable]:
    """Returns the optax optimisers that need a learning rate alone, by name.

    `lbfgs` is left out: its update needs the loss as a function.
    """
    optimizers: dict[str, Callable] = {}
    for name, f in vars(optax).items():
        if inspect.isfunction(f) and not name.startswith(("_", "scale_by_", "lbfgs")):
            parameters = inspect.signature(f).parameters
            required = {k for k, p in parameters.items() if p.default is p.empty}
            if "learning_rate" in parameters and required <= {"learning_rate"}:
                optimizers[name] = f
    return optimizers


def build_optimizer(config) -> optax.GradientTransformation:
    """Builds the optimiser, with gradient clipping and weight decay where set."""
    momentum = {} if is_zero(config.momentum) else {"momentum": config.momentum}
    if momentum and config.name != "sgd":
        raise UserError(
            f"optimizer.momentum is {config.momentum}, but {config.name!r} takes none; "
            "set it to 0 or use sgd."
        )
    steps = [optax_optimizers()[config.name](config.learning_rate, **momentum)]
    if not is_zero(config.weight_decay):
        steps.insert(0, optax.add_decayed_weights(config.weight_decay))
    if not is_zero(config.clip_norm):
        steps.insert(0, optax.clip_by_global_norm(config.clip_norm))
    return optax.chain(*steps) if len(steps) > 1 else steps[0]
