"""Constants and choices of the PyTorch side, and deliberate mistakes in them."""

from collections.abc import Sequence
from typing import NamedTuple

import ml_collections

from jaxproto.core.types import Spec
from jaxproto.errors import UserError, choose_from

FIXED = {  # the only values that the loops in PyTorch support
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
BATCH_NORM = ("mobilenet_v2", "shufflenet_v2_x1_0", "efficientnet_b0")
CHOICES = {
    "reg": ("mse_mean", "sq_l2_mean", "l2_of_means"),
    "collect": ("after_training", "before_training", "train_pass"),
    "aggregate": ("mean_over_clients", "mean_over_examples", "as_printed"),
    "order": ("given", "fixed"),
    "base": ("fedproto", "fedtgp"),
    "scaling": ("none", "sum", "mean"),
    "masks": ("given", "none"),
    "compare": ("dense", "sparse"),
    "distill": ("none", "cpkd"),
    "anchors": ("public", "own"),
    "adapters": ("by_examples", "by_clients"),
}
FREE = "shares", "averages", "classes", "dim", "width"  # that cannot be perturbed


class Rules(NamedTuple):
    """Rules of one method, with the equation numbers of ProtoNorm."""

    shares: bool  # False for Local only
    averages: bool  # True: the server averages whole prototypes
    classes: int
    dim: int
    batch: int
    rate: float
    lam: float = 0.0  # Eq. 4
    reg: str = "mse_mean"  # Eq. 5
    collect: str = "after_training"  # Eq. 2
    aggregate: str = "mean_over_clients"  # Eq. 7; as_printed: Eq. 3
    iterations: int = 0  # most iterations of the alignment; 0: none
    patience: int = 10  # iterations without change that stop it
    upscale: float = 1.0  # Eq. 15
    order: str = "given"  # drawn by jaxproto; fixed: order of the split
    bn_momentum: float = 0.1
    bn_eps: float = 1e-5
    base: str = "fedproto"  # fedtgp: the server trains a generator of prototypes
    tau: float = 100.0  # largest margin of the generator's loss
    server_epochs: int = 0
    server_rate: float = 0.0
    server_batch: int = 0
    scaling: str = "none"  # T Eq. 10, S Eq. 11: uploads times n_ij
    mu: float = 1.0  # its scale; S: K / n
    masks: str = "none"  # T Eq. 7; given: those of jaxproto
    compare: str = "dense"  # T Eq. 11; sparse: S 4.3
    distill: str = "none"  # cpkd: S Eq. 12
    width: int = 0  # of RefProtoFL's adapter; 0: no adapter
    budget: float = 1.0  # R Eq. 4
    anchors: str = "public"  # R Eq. 12; own: as if no class were covered
    adapters: str = "by_examples"  # R Eq. 7


def of(config: ml_collections.ConfigDict, spec: Spec, num_examples: int = 0) -> Rules:
    """Returns the rules of a configuration.

    Args:
      config: configuration of a run.
      spec: sizes of the run.
      num_examples: training examples of all clients, n.

    Raises:
      UserError: the loops in PyTorch do not support a value of the configuration.
    """
    for path, value in FIXED.items():
        section, name = path.split(".")
        if config[section][name] != value:
            raise UserError(
                f"{path} is {config[section][name]!r}; parity supports {value!r}."
            )
    method, local = config.method, config.local
    rules = Rules(
        shares=method.name != "local",
        averages="aggregate" in method,
        classes=spec.num_classes,
        dim=spec.feat_dim,
        batch=local.batch_size,
        rate=config.optimizer.learning_rate,
    )
    known = {k: v for k, v in method.items() if k in rules._fields and v != 0}
    aligned = method.get("alignment") == "thomson"
    rules = rules._replace(**known, iterations=500 if aligned else 0)
    if "server_batch" in method:
        rules = rules._replace(server_batch=method.server_batch or local.batch_size)
    if method.name == "fedtgp":
        rules = rules._replace(base="fedtgp")
    if method.name == "refprotofl":
        fields = {"reg": method.pull, "width": method.adapter_dim, "anchors": "public"}
        rules = rules._replace(**fields, aggregate="mean_over_examples")
    return scaled(rules, method, num_examples)


def scaled(rules: Rules, method, num_examples: int) -> Rules:
    """Adds the rules of sparse and scaled prototypes if the method has them."""
    if "masks" not in method:
        return rules
    share = rules.classes / max(num_examples, 1)
    mu = share if method.name == "cps_ppa_cpkd" else method.mu or 0.9 * share
    masks = "none" if method.masks == "none" else "given"
    return rules._replace(masks=masks, mu=1.0 if rules.scaling == "none" else mu)


def mistaken(rules: Rules, mistakes: Sequence[str]) -> Rules:
    """Returns the rules with deliberate mistakes such as `lam=5`.

    Raises:
      UserError: a rule or its value is unknown.
    """
    for mistake in mistakes:
        name, _, text = mistake.partition("=")
        known = [k for k in rules._fields if k not in FREE]
        kind = type(getattr(rules, choose_from("rule to perturb", name, known)))
        if name in CHOICES:
            choose_from(f"value of {name}", text, CHOICES[name])
        try:
            rules = rules._replace(**{name: kind(text)})
        except ValueError as e:
            raise UserError(f"{mistake!r}: {name} is a number.") from e
    return rules
