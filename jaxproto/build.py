"""From a configuration to the functions, networks and data of a run."""

import inspect
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax

from jaxproto import (
    batches,
    federation,
    forms,
    models,
    options,
    participation,
    wire,
)
from jaxproto.client import Local
from jaxproto.data import describe, public
from jaxproto.data.describe import Counts
from jaxproto.data.partition import PARTITIONS, Partition
from jaxproto.data.sources import Source
from jaxproto.errors import UserError, pick
from jaxproto.federation import Cohort
from jaxproto.forms import Form
from jaxproto.method import Method
from jaxproto.methods import METHODS
from jaxproto.types import Pool, Shard, Spec
from jaxproto.wire import Wire


class Experiment(NamedTuple):
    """All that a run needs besides its state."""

    spec: Spec
    method: Method
    how: Local
    law: participation.Law
    forms: tuple[Form, ...]  # per cohort, how its clients run
    cohorts: tuple[Cohort, ...]
    source: Source
    partition: Partition
    train: tuple[Shard, ...]  # per cohort
    test: tuple[Shard, ...]
    counts: Counts  # examples per client and class, [K, C] for training and test
    formats: Wire  # of values on the wire, both directions
    check_wire: bool  # encode and decode every message


def experiment(config: ml_collections.ConfigDict, platform: str) -> Experiment:
    """Builds and checks everything that can be checked before training.

    Args:
      config: checked by `config.check`.
      platform: of the device, "cpu", "gpu" or "tpu".

    Raises:
      UserError: whatever is wrong with names, data, partition or shapes.
    """
    law = build_law(config.participation)
    how = build_local(config)
    names = network_names(config.model.group)
    source = public.load(
        config.data.name,
        data_dir=config.data.data_dir or None,
        seed=config.data.seed,
        pooled=config.data.pool,
        share=config.data.public_share,
        classes=config.data.public_classes,
        other=config.data.public_source,
    )
    partition = build_partition(config.data, source)
    spec = Spec(source.num_classes, config.model.feat_dim)
    cohorts = build_cohorts(names, partition, source, spec, config.model.compute_dtype)
    return Experiment(
        spec=spec,
        method=build_method(config.method, spec, sum(map(len, partition.train))),
        how=how,
        law=law,
        forms=tuple(
            build_form(config.clients_at_once, platform, steps(partition, c.ids, how))
            for c in cohorts
        ),
        cohorts=cohorts,
        source=source,
        partition=partition,
        train=tuple(shards(partition.train, c.ids) for c in cohorts),
        test=tuple(shards(partition.test, c.ids) for c in cohorts),
        counts=describe.counts(source, partition),
        formats=build_wire(config.wire),
        check_wire=config.wire.check,
    )


def build_wire(config) -> Wire:
    """The formats of both directions."""
    up, down = (
        pick(f"wire.{key}", config[key], wire.FORMATS) for key in ("up", "down")
    )
    return Wire(up, down)


def build_method(config, spec: Spec, num_examples: int = 0) -> Method:
    """The method with its options resolved.

    Args:
      num_examples: training examples of all clients, for a method that asks for them
        and a configuration that leaves them at 0.
    """
    name = pick("method", config.name, METHODS)
    arguments = {}
    for key, value in config.items():
        if key in options.OPTIONS:
            choices = options.OPTIONS[key]
            arguments[key] = choices[pick(f"method.{key}", value, choices)](spec)
        elif key != "name":
            arguments[key] = value
    if arguments.get("num_examples") == 0:
        arguments["num_examples"] = num_examples
    return METHODS[name](spec, **arguments)


def build_local(config) -> Local:
    """Local training with its options resolved."""
    local, states = config.local, options.OPTIMIZER_STATES
    return Local(
        opt=build_optimizer(config.optimizer),
        epochs=local.epochs,
        batch_size=local.batch_size,
        order=options.ORDERS[pick("local.order", local.order, options.ORDERS)],
        whole=options.SHORT[pick("local.short", local.short, options.SHORT)],
        begin=states[pick("local.optimizer_state", local.optimizer_state, states)],
    )


def optimizers() -> dict[str, Callable]:
    """Every function of optax that makes an optimiser from a learning rate alone.

    Without lbfgs, which asks for the loss as a function.
    """
    found = {}
    for name, f in vars(optax).items():
        if inspect.isfunction(f) and not name.startswith(("_", "scale_by_", "lbfgs")):
            takes = inspect.signature(f).parameters
            needs = {k for k, p in takes.items() if p.default is p.empty}
            if "learning_rate" in takes and needs <= {"learning_rate"}:
                found[name] = f
    return found


def build_optimizer(config) -> optax.GradientTransformation:
    """Gradient clipping, L2 weight decay, then the optimiser, each only if asked."""
    name = pick("optimizer", config.name, optimizers())
    if config.momentum and name != "sgd":
        raise UserError(
            f"optimizer.momentum is {config.momentum}, but {name!r} takes none; "
            "set it to 0 or use sgd."
        )
    momentum = {"momentum": config.momentum} if config.momentum else {}
    steps = [optimizers()[name](config.learning_rate, **momentum)]
    if config.weight_decay:
        steps.insert(0, optax.add_decayed_weights(config.weight_decay))
    if config.clip_norm:
        steps.insert(0, optax.clip_by_global_norm(config.clip_norm))
    return optax.chain(*steps) if len(steps) > 1 else steps[0]


def build_law(config) -> participation.Law:
    """The participation law, with dropouts if asked."""
    if config.law == "all" and config.fraction != 1:
        raise UserError(
            f"participation.fraction is {config.fraction}, but law 'all' takes every "
            "client; set participation.law to uniform."
        )
    laws = {
        "all": participation.everyone,
        "uniform": lambda: participation.uniform(config.fraction),
    }
    law = laws[pick("participation.law", config.law, laws)]()
    lossy = participation.with_dropouts
    return lossy(law, config.dropout) if config.dropout else law


def build_partition(config, source: Source) -> Partition:
    """Who has which examples; public ones are nobody's."""
    return public.divide(
        source,
        build_scheme(config),
        clients=config.clients,
        pooled=config.pool,
        train_share=config.train_share,
        seed=config.seed,
    )


def build_scheme(config):
    """The partition scheme, with those of its arguments that the config has."""
    make = PARTITIONS[pick("partition", config.partition, PARTITIONS)]
    known = inspect.signature(make).parameters
    return make(**{k: config[k] for k in known if k in config})


def network_names(group: str) -> tuple[str, ...]:
    """Networks of a group, of one name, or of names joined by commas."""
    names = tuple(n.strip() for n in group.split(","))
    return models.members(names if len(names) > 1 else names[0])


def build_cohorts(
    names,
    partition: Partition,
    source: Source,
    spec: Spec,
    compute_dtype: str = "float32",
):
    """Client i gets entry i mod n; clients of one architecture form a cohort.

    Within a cohort the largest client comes first, as the padded forms want it.
    """
    clients = sorted(
        range(len(partition.train)), key=lambda i: -len(partition.train[i])
    )
    shape = tuple(source.x.shape[1:])
    cohorts = []
    for name in dict.fromkeys(names):
        ids = tuple(i for i in clients if models.assign(names, [i]) == (name,))
        net = models.build(
            name,
            input_shape=shape,
            num_classes=spec.num_classes,
            feat_dim=spec.feat_dim,
            compute_dtype=compute_dtype,
        )
        cohorts += [Cohort(name, net, ids)] * bool(ids)
    return tuple(cohorts)


def steps(partition: Partition, ids, how: Local) -> list[int]:
    """Local steps per round of the clients `ids`."""
    sizes = np.asarray([len(partition.train[i]) for i in ids])
    return (np.asarray(how.whole(sizes, how.batch_size)) * how.epochs).tolist()


def shards(rows, ids) -> Shard:
    """Index tables [K, M] of the clients `ids`, padded to the longest."""
    sizes = [len(rows[i]) for i in ids]
    table = np.zeros((len(ids), max(sizes)), np.int32)
    for k, i in enumerate(ids):
        table[k, : sizes[k]] = rows[i]
    return Shard(jnp.asarray(table), jnp.asarray(sizes, jnp.int32))


def pool(source: Source) -> Pool:
    """Every example, on the device once."""
    rows = source.public
    shown = None if rows is None else jnp.asarray(rows, jnp.int32)
    return Pool(jnp.asarray(source.x), jnp.asarray(source.y, jnp.int32), shown)


def build_form(choice: str, platform: str, steps_K: list[int]) -> Form:
    """How the clients of a cohort run: auto, one, all, or a number at a time."""
    if choice == "auto":
        choice = "one" if platform == "cpu" else "all"
    if choice == "one":
        return forms.one_by_one()
    if choice == "all":
        segments = forms.plan(steps_K)
        return forms.in_segments(segments, -(-len(steps_K) // max(len(segments), 1)))
    if not choice.isdecimal() or int(choice) < 1:
        raise UserError(
            f"clients_at_once is {choice!r}; it is auto, one, all or a number of "
            "clients such as 4."
        )
    return forms.in_chunks(int(choice))


def check(exp: Experiment):
    """Fails before training where method, networks and data do not fit."""
    x = jax.eval_shape(batches.decode, jnp.zeros_like(exp.source.x[:1]))
    federation.check_cohorts(exp.method, exp.cohorts, exp.spec, x)
    sizes, size = [len(rows) for rows in exp.partition.train], exp.how.batch_size
    if not np.any(exp.how.whole(np.asarray(sizes), size)):
        raise UserError(
            f"no client would train: local.batch_size is {size}, but the largest "
            f"client has {max(sizes)} examples; make it smaller, or set local.short to "
            "wrap."
        )
