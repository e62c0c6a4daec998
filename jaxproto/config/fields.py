"""The fields of a configuration: a row of `FIELDS` says all that is known of one.

Defaults, checks, `--print_config`, the arguments of compiled programs, names of default
folders, what may change when a run goes on, what `compare` ignores and the table of
docs/api/fields.md follow from it. Fields of methods come from their factories:
`hyperparameters.py`.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import ml_collections

from jaxproto import models, participation, wire
from jaxproto.config import optimizers, registries
from jaxproto.data import registry
from jaxproto.data.partitions.registry import PARTITIONS
from jaxproto.data.resize import MAX_PIXELS
from jaxproto.errors import UserError
from jaxproto.hyperparameters import (
    BELOW_ONE,
    COUNT,
    POSITIVE,
    POSITIVE_SHARE,
    SEED,
    STATIC,
    Range,
    or_zero,
)
from jaxproto.methods import METHODS
from jaxproto.metrics import METRICS
from jaxproto.privacy import UNITS

MAX_DEPTH = 8  # nested fields of a configuration; its own are two deep
FOLLOW = -1  # `data.seed` that takes the value of `seed`
TYPES = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
TRACED, UNUSED = "argument", "unused"  # by compiled programs; or STATIC
NEVER, MORE = "no", "to more, unless a round depends on it"  # may change on resume
STOPPED, MOVED = "after an early stop", "no, but in `jaxproto.load` and on nodes"


class Names:
    """The names that a field can hold, as they are registered when asked for."""

    def __init__(self, *parts: Iterable[str], only: bool = True, kind: str = ""):
        self._parts = parts  # registries, or lists
        self.only = only  # False: other values fit, too; who reads them checks them
        self.kind = kind  # how messages call the field, if not by its path

    def __iter__(self) -> Iterator[str]:
        """Returns the names of all parts, in their order."""
        return itertools.chain(*self._parts)


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a configuration."""

    default: Any
    help: str
    allowed: Range | Names | None = None  # None: all that has the default's type
    program: str = STATIC  # how compiled programs use it; a TRACED one is a float
    names_run: bool = True  # the name of a default folder says that it is changed
    compared: bool = True  # False: runs of one setting may differ in it
    resume: str = NEVER  # when a run may go on with another value

    @property
    def words(self) -> str:
        """Returns in words what it may hold."""
        if isinstance(self.allowed, Names):
            return " | ".join(self.allowed)
        kind = TYPES[type(self.default)]
        return f"{kind}, {self.allowed.words}" if self.allowed else kind


NON_NEGATIVE = Range("0 (off) or more", 0)
BETWEEN_0_AND_1 = Range("above 0 and below 1", 0, 1, "()")
PIXELS = Range(f"0 (as they are) or more, {MAX_PIXELS} at most", 0, MAX_PIXELS)
ALPHA = Range("above 0 and at most 1e6", 0, 1e6, "(]")
DATA_SEED = Range("from 0 to 2**32 - 1, or follow", FOLLOW, 2**32 - 1)
EPOCHS = Range("from 1 to 10,000", 1, 10_000)  # a trace has all their keys
READERS = [registry.NODES, *(f"{prefix}:..." for prefix in registry.PREFIXES)]
DATA = Names(registry.DATASETS, READERS, only=False)
SCHEMES = Names(PARTITIONS, ["file:PATH"], only=False)
NETWORKS = Names(models.GROUPS, models.NETS, only=False)
AT_ONCE = Names(["auto", "one", "all", "a number"], only=False)
STORES = Names(["auto", "none", "device", "host", "disk"])
ALL_OR_NUMBER = Names(["all", "a number"], only=False)
METRIC_NAMES = Names(METRICS, ["several joined by commas"], only=False)

# One row per field: path, default, meaning, what is allowed, use by compiled programs,
# and the rules that are not as usual. Sources of defaults: N is ProtoNorm, T TinyProto.
# fmt: off
FIELDS = {
    "name": Field("run", "first part of the default work directory", program=UNUSED, names_run=False, compared=False),
    "seed": Field(0, "of initial weights, batches and participation", SEED, UNUSED, names_run=False, compared=False),
    "rounds": Field(300, "communication rounds", COUNT, resume=MORE),  # N 5.1
    "eval_every": Field(1, "rounds between evaluations", COUNT, UNUSED),
    "checkpoint_every": Field(10, "rounds between checkpoints", COUNT, UNUSED, compared=False),
    "data.name": Field("digits", "data set", DATA, names_run=False),
    "data.data_dir": Field("", "folder of prepared TFDS sets; empty: TFDS's own default", program=UNUSED, names_run=False, compared=False, resume=MOVED),
    "data.pixels": Field(0, "height and width images are resized to; 0: as they are", PIXELS),
    "data.vocab_size": Field(0, "tokens of texts at most; 0: all training words", or_zero("all words")),
    "data.max_len": Field(200, "words of a text that count", COUNT),  # T's code
    "data.min_texts": Field(5, "training texts with a word, for a node to tell it: nodes", COUNT),
    "data.clients": Field(20, "number of clients", COUNT),  # N 5.1
    "data.partition": Field("dirichlet", "who gets which examples", SCHEMES),  # N 5.1
    "data.alpha": Field(0.1, "Dirichlet's concentration: small is heterogeneous", ALPHA),  # N 5.1
    "data.classes_per_client": Field(2, "of partitions named pathological", COUNT),  # CIFAR-10's in N's code
    "data.min_size": Field(2, "examples per client at least: dirichlet, quantity", COUNT),
    "data.least_samples": Field(1, "the same: pfllib, pfllib_pathological", COUNT),
    "data.pool": Field(True, "pool official training and test parts, then split each client's"),  # N 5.1
    "data.train_share": Field(0.75, "share of a client's examples that it trains on, pooled", BETWEEN_0_AND_1),  # N 5.1
    "data.seed": Field(1, "of the partition, one for every `seed` unless it is follow (-1)", DATA_SEED),  # docs/decisions.md#seeds
    "data.public_share": Field(0.0, "share of the examples that are known to all", BELOW_ONE),
    "data.public_classes": Field(0.5, "share of the classes that public examples cover", POSITIVE_SHARE),
    "data.public_source": Field("", "a data set whose examples are public instead"),
    "model.group": Field("digits", "group of networks over the clients, or names joined by commas", NETWORKS),
    "model.feat_dim": Field(64, "features before the classifier, dimensions of a prototype", COUNT),
    "model.compute_dtype": Field("float32", "of the bodies of the networks", Names(models.registry.PRECISIONS)),
    "model.init": Field("independent", "initial weights within an architecture: of each client, or equal", Names(registries.INIT_KEYS)),
    "method.name": Field("local", "federated learning method", Names(METHODS)),
    "local.epochs": Field(1, "passes over a client's data in a round", EPOCHS),  # N 5.1
    "local.batch_size": Field(32, "examples per step", COUNT),  # N 5.1
    "local.order": Field("shuffled", "of examples in each epoch", Names(registries.ORDERS)),  # docs/decisions.md#batches
    "local.short": Field("wrap", "clients with fewer examples than one batch", Names(registries.SHORT_CLIENT_POLICIES)),
    "local.optimizer_state": Field("restart", "at the start of each round", Names(registries.OPTIMIZER_STATES)),
    "optimizer.name": Field("sgd", "any optimiser of optax that takes a learning rate", Names(sorted(optimizers.optax_optimizers()), kind="optimizer")),
    "optimizer.learning_rate": Field(0.01, "of local training", POSITIVE, TRACED),  # N 5.1
    "optimizer.momentum": Field(0.0, "sgd only", BELOW_ONE, TRACED),
    "optimizer.weight_decay": Field(0.0, "added to the gradient, as PyTorch's SGD does", NON_NEGATIVE, TRACED),
    "optimizer.clip_norm": Field(0.0, "largest norm of the gradient; 0 is off", NON_NEGATIVE, TRACED),
    "optimizer.schedule": Field("constant", "of the learning rate over rounds", Names(optimizers.SCHEDULES)),
    "optimizer.decay": Field(1.0, "factor per round of schedule=exponential", POSITIVE_SHARE, TRACED),
    "participation.law": Field("all", "which clients take part in a round", Names(participation.SAMPLERS)),
    "participation.fraction": Field(1.0, "of uniform, beta, gamma, weibull and cyclic", POSITIVE_SHARE, TRACED),
    # The arguments of these laws are FAST's
    "participation.beta_a": Field(1.0, "of law=beta", POSITIVE, TRACED),
    "participation.beta_b": Field(10.0, "of law=beta", POSITIVE, TRACED),
    "participation.gamma_shape": Field(10.0, "of law=gamma", POSITIVE, TRACED),
    "participation.gamma_scale": Field(0.01, "of law=gamma", POSITIVE, TRACED),
    "participation.weibull_shape": Field(10.0, "of law=weibull", POSITIVE, TRACED),
    "participation.weibull_scale": Field(1 / 1.2, "of law=weibull", POSITIVE, TRACED),
    "participation.cyclic_groups": Field(4, "of law=cyclic", COUNT),
    "participation.circular_groups": Field(10, "of law=circular", COUNT),
    "participation.dropout": Field(0.0, "probability that a trained update is lost", BELOW_ONE, TRACED),
    "privacy.unit": Field("off", "whose data no release depends on much: a client, an example", Names(UNITS)),
    "privacy.clip": Field(1.0, "largest L2 norm of what a unit contributes to a sum", POSITIVE, TRACED),
    "privacy.noise": Field(1.0, "standard deviation of the noise of a sum, in units of clip", POSITIVE, TRACED),
    "privacy.delta": Field(1e-5, "of the (epsilon, delta) that is accounted for", BETWEEN_0_AND_1, UNUSED),
    "wire.up": Field("float32", "number format of values from client to server", Names(wire.FORMATS)),
    "wire.down": Field("float32", "number format of values from server to client", Names(wire.FORMATS)),
    "wire.check": Field(False, "encode and decode every message of every round", compared=False),
    "early_stopping.rule": Field("", "by whose pooled accuracy; empty: the first of the records", program=UNUSED, resume=STOPPED),
    "early_stopping.patience": Field(0, "evaluations without improvement that end a run; 0: off", or_zero("off"), UNUSED, resume=STOPPED),
    "early_stopping.least": Field(0.0, "share of the examples that is an improvement", BELOW_ONE, UNUSED, resume=STOPPED),
    "clients_at_once": Field("auto", "how many clients of a cohort the device trains at a time", AT_ONCE, compared=False),
    "clients.store": Field("auto", "where clients are between rounds; none where they keep nothing", STORES),
    "eval.clients": Field("all", "clients that are evaluated: all, or a sample of so many", ALL_OR_NUMBER),
    "eval.metrics": Field("accuracy", "what is measured of every rule, besides the accuracy", METRIC_NAMES),
    "eval.per_client": Field(False, "write a table of the clients for each evaluation", program=UNUSED),
}
# fmt: on


def fields_where(**values) -> set[str]:
    """Returns the paths of fields of which the table has these values.

    `fields_where(compared=False)` are those that say nothing of a run's numbers.
    """
    return {
        path
        for path, field in FIELDS.items()
        if all(getattr(field, key) == value for key, value in values.items())
    }


def resumable(config: ml_collections.ConfigDict, *rules: str) -> set[str]:
    """Returns the fields with one of these rules that a run may go on with changed."""
    tied = {"rounds"} if registries.needs_rounds(config) else set()
    return {path for path, field in FIELDS.items() if field.resume in rules} - tied


def extended(config: ml_collections.ConfigDict, begun: Mapping) -> set[str]:
    """Returns the fields, such as `rounds`, of which a run may go on with more.

    Args:
      config: the configuration to go on with.
      begun: the flat one that the run began with.
    """
    here = flatten(config)
    return {path for path in resumable(config, MORE) if here[path] > begun[path]}


def default() -> ml_collections.ConfigDict:
    """Returns the configuration that has every field at its default."""
    return ml_collections.ConfigDict(nested(defaults(FIELDS)))


def defaults(fields: Mapping[str, Field]) -> dict:
    """Returns dotted path -> default of some fields."""
    return {path: field.default for path, field in fields.items()}


def nested(fields: Mapping[str, Any]) -> dict:
    """Returns the sections of dotted paths, two deep at most."""
    out: dict[str, Any] = {}
    for path, value in fields.items():
        section, dot, key = path.partition(".")
        if dot:
            out.setdefault(section, {})[key] = value
        else:
            out[path] = value
    return out


def flatten(config) -> dict:
    """Dotted path -> value; tuples become lists as they do in JSON.

    Raises:
      UserError: it is nested deeper than any configuration.
    """
    return _flat(config, ())


def _flat(config, above: tuple[str, ...]) -> dict:
    if len(above) > MAX_DEPTH:
        raise UserError(
            f"the configuration is nested more than {MAX_DEPTH} deep at "
            f"{'.'.join(above)[:80]}; its fields are such as method.lam."
        )
    out: dict[str, Any] = {}
    for key, value in config.items():
        path = *above, str(key)
        if isinstance(value, Mapping | ml_collections.ConfigDict):
            out |= _flat(value, path)
        else:
            out[".".join(path)] = list(value) if isinstance(value, tuple) else value
    return out


def resolved_data_fields(
    config: ml_collections.ConfigDict,
) -> ml_collections.ConfigDict:
    """The fields `data` of a run, with `data.seed` resolved where it follows `seed`."""
    data = ml_collections.ConfigDict(config.data.to_dict())
    if data.seed == FOLLOW:
        data.seed = config.seed
    return data


def differences(old: Mapping, new: Mapping) -> list[str]:
    """One line per field that differs between two flat configurations."""
    keys = sorted({*old, *new})
    return [
        f"{k}: {old.get(k, 'absent')!r} there, {new.get(k, 'absent')!r} here"
        for k in keys
        if old.get(k, "absent") != new.get(k, "absent")
    ]
