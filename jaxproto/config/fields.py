"""The fields of a configuration: the table `FIELDS` with one row per field.

It decides defaults, checks, `--print_config`, the arguments of compiled programs, names
of default folders, the fields that may change when a run resumes, those that `compare`
ignores and the table of docs/api/fields.md. Fields of methods, with ranges and
defaults, come from the factories in `jaxproto/methods`: `factory_fields.py`. Data sets
(`presets.py`) and files of configs/ replace defaults, and flags replace both.
"""

from collections.abc import Mapping
from typing import Any

import ml_collections

from jaxproto import models, wire
from jaxproto.config import features, optimizers, registries
from jaxproto.config.field import (
    BETWEEN_0_AND_1,
    FREE,
    MORE,
    MOVED,
    NON_NEGATIVE,
    STOPPED,
    TRACED,
    UNUSED,
    Field,
    Names,
)
from jaxproto.core.hyperparameters import (
    BELOW_ONE,
    COUNT,
    POSITIVE,
    POSITIVE_SHARE,
    SEED,
    Range,
    or_zero,
)
from jaxproto.data import registry
from jaxproto.data.partitions.registry import (
    PARTITIONS,
    USAGE,
)
from jaxproto.errors import UserError
from jaxproto.methods import METHODS
from jaxproto.metrics import METRICS
from jaxproto.round import participation

MAX_DEPTH = 8  # nested fields of a configuration; its own are two deep
FOLLOW = -1  # `data.seed` that takes the value of `seed`
MAX_PIXELS = 4_096  # larger sizes are mistakes
PIXELS = Range(f"0 (unchanged) or more, {MAX_PIXELS} at most", 0, MAX_PIXELS)
ALPHA = Range("above 0 and at most 1e6", 0, 1e6, "(]")
DATA_SEED = Range("from 0 to 2**32 - 1, or follow", FOLLOW, 2**32 - 1)
EPOCHS = Range(
    "from 1 to 10,000 (for less, local.max_batches)", 1, 10_000
)  # tracing makes the keys of all epochs
READERS = [registry.NODES, *(f"{prefix}:..." for prefix in registry.PREFIXES)]
DATA = Names(registry.DATASETS, READERS, only=False)
SCHEMES = Names(PARTITIONS, USAGE, only=False)
NETWORKS = Names(models.GROUPS, models.NETS, only=False)
AT_ONCE = Names(["auto", "one", "all", "a number"], only=False)
STORES = Names(["auto", "none", "device", "host", "disk"])
ALL_OR_NUMBER = Names(["all", "a number"], only=False)
METRIC_NAMES = Names(METRICS, ["several joined by commas"], only=False)

# One row per field: path, default, meaning, allowed values, use by compiled programs,
# and the rules that differ from their defaults. Sources of defaults: N is ProtoNorm, T TinyProto.
# fmt: off
FIELDS = {
    "name": Field("run", "first part of the default run directory's name", program=UNUSED, names_run=False, compared=False),
    "seed": Field(0, "seed of initial weights, batches and participation", SEED, UNUSED, names_run=False, compared=False),
    "rounds": Field(300, "communication rounds", COUNT, resume=MORE),  # N 5.1
    "eval_every": Field(1, "rounds between evaluations", COUNT, UNUSED),
    "checkpoint_every": Field(10, "rounds between checkpoints", COUNT, UNUSED, compared=False),
    "imports": Field("", "files that the command line has imported (--import), joined by commas", program=UNUSED, names_run=False, compared=False, resume=FREE),
    "data.name": Field("digits", "data set", DATA, names_run=False),
    "data.data_dir": Field("", "folder of prepared TFDS data sets (empty: TFDS's default), or of files with a relative path", program=UNUSED, names_run=False, compared=False, resume=MOVED),
    "data.pixels": Field(0, "height and width to which images are resized; 0: unchanged", PIXELS),
    "data.columns": Field("", "columns of a table (csv:, parquet:), joined by commas: inputs, then the label; empty: text and label, or numbers and label"),
    "data.vocab_size": Field(0, "maximum vocabulary size of texts; 0: all training words", or_zero("all words")),
    "data.tokens": Field("", "file with the vocabulary of texts, such as vocabulary.txt of a run; empty: words of the training texts"),
    "data.max_len": Field(200, "maximum number of words of a text; the rest is cut", COUNT),  # T's code
    "data.min_texts": Field(5, "training texts of a node that must contain a word before it reports the word (data.name=nodes)", COUNT),
    "data.clients": Field(20, "number of clients", COUNT),  # N 5.1
    "data.partition": Field("dirichlet", "partition of the examples over the clients", SCHEMES),  # N 5.1
    "data.alpha": Field(0.1, "concentration of the Dirichlet distribution; small values are heterogeneous", ALPHA),  # N 5.1
    "data.classes_per_client": Field(2, "classes per client (partitions named pathological, extended_dirichlet), or shards per client (shards)", COUNT),  # CIFAR-10's in N's code
    "data.min_size": Field(2, "minimum examples per client (dirichlet, extended_dirichlet, quantity, lognormal)", COUNT),
    "data.sigma": Field(1.0, "standard deviation of the logarithm of clients' sizes (lognormal); 0: equal sizes", NON_NEGATIVE),
    "data.least_samples": Field(1, "minimum examples per client (pfllib, pfllib_pathological)", COUNT),
    "data.pool": Field(True, "join the official training and test parts, then split the examples of each client"),  # N 5.1
    "data.train_share": Field(0.75, "share of a client's examples for training, if data.pool", BETWEEN_0_AND_1),  # N 5.1
    "data.validation_share": Field(0.0, "share of each client's training examples that is held out, to choose rounds and settings by", BELOW_ONE),
    "data.centralised": Field(False, "client 0 trains on the training examples of all clients, and the others only test (configs/fedavg.py)"),
    "data.seed": Field(1, "seed of the partition; follow (-1) takes the value of `seed`", DATA_SEED),  # docs/decisions.md#seeds
    "data.public_share": Field(0.0, "share of the examples that are public", BELOW_ONE),
    "data.public_classes": Field(0.5, "share of the classes that public examples cover", POSITIVE_SHARE),
    "data.public_source": Field("", "another data set, whose examples are public"),
    "model.group": Field("digits", "networks of the clients: a group, or names joined by commas", NETWORKS),
    "model.feat_dim": Field(64, "dimensions of features and prototypes", COUNT),
    "model.compute_dtype": Field("float32", "number format in which the bodies of networks compute; on a CPU bfloat16 rounds only operands of matrix products", Names(models.registry.PRECISIONS)),
    "model.init": Field("independent", "initial weights of clients with equal architecture: drawn for each client, or equal", Names(registries.INIT_KEYS)),
    "method.name": Field("local", "federated learning method", Names(METHODS)),
    "local.epochs": Field(1, "passes over a client's data per round", EPOCHS),  # N 5.1
    "local.batch_size": Field(32, "examples per step", COUNT),  # N 5.1
    "local.max_batches": Field(0, "maximum number of batches of a pass, the first of its order; 0: all", or_zero("all")),
    "local.order": Field("shuffled", "order of the examples in each epoch", Names(registries.ORDERS)),  # docs/decisions.md#batches
    "local.short": Field("wrap", "treatment of clients with fewer examples than one batch", Names(registries.SHORT_CLIENT_POLICIES)),
    "local.optimizer_state": Field("restart", "optimiser state at the start of each round", Names(registries.OPTIMIZER_STATES)),
    "optimizer.name": Field("sgd", "optimiser of optax that needs only a learning rate", Names(sorted(optimizers.optax_optimizers()), kind="optimizer")),
    "optimizer.learning_rate": Field(0.01, "learning rate of local training", POSITIVE, TRACED),  # N 5.1
    "optimizer.momentum": Field(0.0, "momentum of sgd; other optimisers take none", BELOW_ONE, TRACED),
    "optimizer.weight_decay": Field(0.0, "L2 weight decay added to the gradient, as in PyTorch's SGD", NON_NEGATIVE, TRACED),
    "optimizer.clip_norm": Field(0.0, "maximum norm of the gradient; 0: off", NON_NEGATIVE, TRACED),
    "optimizer.schedule": Field("constant", "learning rate schedule over rounds", Names(optimizers.SCHEDULES)),
    "optimizer.decay": Field(1.0, "factor of the learning rate per round, if schedule=exponential", POSITIVE_SHARE, TRACED),
    "participation.law": Field("all", "sampler of the clients that take part in a round", Names(participation.SAMPLERS)),
    "participation.fraction": Field(1.0, "share of the clients that takes part: uniform, beta, gamma, weibull, cyclic", POSITIVE_SHARE, TRACED),
    # Laws of FAST, with its arguments
    "participation.beta_a": Field(1.0, "first shape parameter of law=beta", POSITIVE, TRACED),
    "participation.beta_b": Field(10.0, "second shape parameter of law=beta", POSITIVE, TRACED),
    "participation.gamma_shape": Field(10.0, "shape parameter of law=gamma", POSITIVE, TRACED),
    "participation.gamma_scale": Field(0.01, "scale parameter of law=gamma", POSITIVE, TRACED),
    "participation.weibull_shape": Field(10.0, "shape parameter of law=weibull", POSITIVE, TRACED),
    "participation.weibull_scale": Field(1 / 1.2, "scale parameter of law=weibull", POSITIVE, TRACED),
    "participation.cyclic_groups": Field(4, "number of groups of law=cyclic", COUNT),
    "participation.circular_groups": Field(10, "number of groups of law=circular", COUNT),
    "participation.dropout": Field(0.0, "probability that a trained update is lost", BELOW_ONE, TRACED),
    "wire.up": Field("float32", "number format of values from client to server", Names(wire.FORMATS)),
    "wire.down": Field("float32", "number format of values from server to client", Names(wire.FORMATS)),
    "wire.bound": Field(1e6, "largest absolute value of an upload that a server of nodes, or with robust.aggregate, accepts", POSITIVE, TRACED, names_run=False, compared=False, resume=MORE),
    "wire.check": Field(False, "encode and decode every message of every round", compared=False),
    "early_stopping.rule": Field("", "prediction rule whose pooled accuracy is watched; empty: the first rule", program=UNUSED, resume=STOPPED),
    "early_stopping.patience": Field(0, "evaluations without improvement before a run stops; 0: off", or_zero("off"), UNUSED, resume=STOPPED),
    "early_stopping.least": Field(0.0, "minimum gain in accuracy that counts as an improvement", BELOW_ONE, UNUSED, resume=STOPPED),
    "clients_at_once": Field("auto", "number of clients of a cohort that the device trains at a time", AT_ONCE, compared=False),
    "clients.store": Field("auto", "where client states are between rounds; none: clients keep no state", STORES),
    "eval.clients": Field("all", "clients that are evaluated: all, or the size of a sample", ALL_OR_NUMBER),
    "eval.metrics": Field("accuracy", "metrics of every prediction rule; accuracy is always measured", METRIC_NAMES, compared=False),
    "eval.per_client": Field(False, "write a table of the clients at each evaluation", program=UNUSED, compared=False),
    **features.declared(),
}
# fmt: on


def fields_where(**values) -> set[str]:
    """Returns the paths of the fields whose rows have these values.

    `fields_where(compared=False)` returns the fields that do not change a run's results.
    """
    return {
        path
        for path, field in FIELDS.items()
        if all(getattr(field, key) == value for key, value in values.items())
    }


def resumable(config: ml_collections.ConfigDict, *rules: str) -> set[str]:
    """Returns the fields that may change on resume by one of these rules."""
    method, schedule = config.method.name, config.optimizer.schedule
    fixed = {"rounds"} if optimizers.needs_rounds(method, schedule) else set()
    return {path for path, field in FIELDS.items() if field.resume in rules} - fixed


def extended(config: ml_collections.ConfigDict, begun: Mapping) -> set[str]:
    """Returns the fields, such as `rounds`, that a resumed run has increased.

    Args:
      begun: the flat configuration that the run began with.
    """
    new = flatten(config)
    return {path for path in resumable(config, MORE) if new[path] > begun[path]}


def defaults(fields: Mapping[str, Field]) -> dict:
    """Returns dotted path -> default of these fields."""
    return {path: field.default for path, field in fields.items()}


def flatten(config) -> dict:
    """Returns dotted path -> value; tuples become lists, as in JSON.

    Raises:
      UserError: the configuration is nested more than `MAX_DEPTH` deep.
    """
    return _flatten(config, ())


def _flatten(config, above: tuple[str, ...]) -> dict:
    if len(above) > MAX_DEPTH:
        raise UserError(
            f"the configuration is nested more than {MAX_DEPTH} deep at "
            f"{'.'.join(above)[:80]}; its fields are such as method.lam."
        )
    out: dict[str, Any] = {}
    for key, value in config.items():
        path = *above, str(key)
        if isinstance(value, Mapping | ml_collections.ConfigDict):
            out |= _flatten(value, path)
        else:
            out[".".join(path)] = list(value) if isinstance(value, tuple) else value
    return out


def resolved_data_fields(
    config: ml_collections.ConfigDict,
) -> ml_collections.ConfigDict:
    """Returns the fields `data`, with `data.seed` resolved if it follows `seed`."""
    data = ml_collections.ConfigDict(config.data.to_dict())
    if data.seed == FOLLOW:
        data.seed = config.seed
    return data


def differences(old: Mapping, new: Mapping) -> list[str]:
    """Returns a line per field that differs between two flat configurations."""
    values = {
        k: (old.get(k, "absent"), new.get(k, "absent")) for k in sorted({*old, *new})
    }
    return [f"{k}: {a!r} there, {b!r} here" for k, (a, b) in values.items() if a != b]
