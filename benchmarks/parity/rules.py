"""What the PyTorch side does: every constant and choice, so that each can be wrong."""

from collections.abc import Sequence
from typing import NamedTuple

import ml_collections

from jaxproto.errors import UserError, choose_from
from jaxproto.types import Spec

FIXED = {  # what the loops in PyTorch have no other form of
    "local.short": "wrap",
    "local.optimizer_state": "restart",
    "optimizer.name": "sgd",
    "optimizer.schedule": "constant",
    "participation.law": "all",
    "participation.dropout": 0.0,
    "wire.up": "float32",
    "wire.down": "float32",
    "model.compute_dtype": "float32",
}
CHOICES = {
    "reg": ("mse_mean", "sq_l2_mean", "l2_of_means"),
    "collect": ("after_training", "before_training", "train_pass"),
    "aggregate": ("mean_over_clients", "mean_over_examples", "as_printed"),
    "order": ("given", "fixed"),
}


class Rules(NamedTuple):
    """Of one method. Equation numbers are those of ProtoNorm."""

    shares: bool  # prototypes; Local has none
    classes: int
    dim: int
    batch: int
    rate: float
    lam: float = 0.0  # Eq. 4
    reg: str = "mse_mean"  # Eq. 5
    collect: str = "after_training"  # Eq. 2
    aggregate: str = "mean_over_clients"  # Eq. 7; as_printed: Eq. 3
    iterations: int = 0  # of the alignment at most; 0 is none
    patience: int = 10  # its stop
    upscale: float = 1.0  # Eq. 15
    order: str = "given"  # by jaxproto; fixed: that of the split


def of(config: ml_collections.ConfigDict, spec: Spec) -> Rules:
    """The rules that a configuration means.

    Raises:
      UserError: it has something that the loops in PyTorch do not.
    """
    for path, value in FIXED.items():
        half, name = path.split(".")
        if config[half][name] != value:
            raise UserError(
                f"{path} is {config[half][name]!r}; parity knows {value!r}."
            )
    method, steps = config.method, config.local
    rules = Rules(
        shares=method.name != "local",
        classes=spec.num_classes,
        dim=spec.feat_dim,
        batch=steps.batch_size,
        rate=config.optimizer.learning_rate,
    )
    known = {k: v for k, v in method.items() if k in rules._fields}
    aligned = method.get("alignment") == "thomson"
    return rules._replace(**known, iterations=500 if aligned else 0)


def mistaken(rules: Rules, mistakes: Sequence[str]) -> Rules:
    """The rules with deliberate mistakes such as `lam=5`.

    Raises:
      UserError: no such rule, or not a value of it.
    """
    for mistake in mistakes:
        name, _, text = mistake.partition("=")
        there = [k for k in rules._fields if k not in ("shares", "classes", "dim")]
        kind = type(getattr(rules, choose_from("rule to perturb", name, there)))
        if name in CHOICES:
            choose_from(f"value of {name}", text, CHOICES[name])
        try:
            rules = rules._replace(**{name: kind(text)})
        except ValueError as e:
            raise UserError(f"{mistake!r}: {name} is a number.") from e
    return rules
