"""Builds the functions, networks and data of a run from its configuration."""

import dataclasses
import inspect
import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from jaxproto import batches, models, participation, wire
from jaxproto.client import LocalTraining
from jaxproto.config import fields, privacy, registries, robustness
from jaxproto.config.checks import network_names, num_evaluated
from jaxproto.config.optimizers import build_local_training
from jaxproto.data import partition_stats
from jaxproto.data.partitions.registry import Partition
from jaxproto.data.registry import Dataset
from jaxproto.errors import UserError, choose_from, failing_line, is_external
from jaxproto.experiment import data, memory, simulated_devices, statelessness
from jaxproto.experiment.cohorts import (
    CohortPlan,
    ExecutionChoices,
    build_cohorts,
    choose_store,
    evaluated_ids,
    evaluation_tables,
    make_stateless,
    plan_execution,
    two_examples,
)
from jaxproto.experiment.data import FederationData
from jaxproto.experiment.method_check import check_method, make_method
from jaxproto.experiment.sampler import build_sampler, max_rows_of
from jaxproto.experiment.shape_checks import check_cohorts
from jaxproto.experiment.traced import Floats, replace_floats, traced_floats
from jaxproto.federation import Federation, Parts
from jaxproto.mesh import ONE, OneDevice
from jaxproto.method import Method
from jaxproto.methods import METHODS
from jaxproto.methods.options import NETWORKS
from jaxproto.metrics import Metric, metrics_by_name
from jaxproto.models.ops import Ops, ops
from jaxproto.simulated_time import Timing
from jaxproto.types import Array, Examples, Net, Shard, Spec
from jaxproto.wire import Wire

DERIVED_ARGUMENTS = {
    **registries.DERIVED_ARGUMENTS,
    "privacy": lambda run, _: privacy.privacy_of(run),
}


class Experiment(NamedTuple):
    """Everything that a run needs besides its state."""

    spec: Spec
    method: Method
    local: LocalTraining
    sampler: participation.Sampler
    dropout: float | Array  # probability that a trained update is lost
    timing: Timing | None  # simulated seconds, if any
    floats: Floats  # arguments of the compiled programs
    parts: Callable[[Floats], Parts]  # builds the five above with other floats
    cohorts: tuple[CohortPlan, ...]
    metrics: tuple[Metric, ...]  # of every evaluation
    dataset: Dataset
    partition: Partition
    train: tuple[Shard, ...]  # per cohort
    test: tuple[Shard, ...]  # and validation, of evaluated clients; see `Scoring.tests`
    counts: (
        partition_stats.Counts
    )  # examples per client and class, [K, C] for training and test
    formats: Wire  # number formats in both directions
    check_wire: bool  # encode and decode every message
    fit: bool  # train fewer clients at a time if all do not fit into memory
    store: str = "device"  # where clients are between rounds; see `choose_store`
    layout: OneDevice = ONE  # or several devices


def experiment(
    config: ml_collections.ConfigDict,
    platform: str,
    tokens: tuple[str, ...] | None = None,
    layout: OneDevice = ONE,
    given: FederationData | None = None,
) -> Experiment:
    """Builds and checks everything that can be checked before training.

    Args:
      config: checked by `config.check`.
      platform: platform of the device, "cpu", "gpu" or "tpu".
      tokens: vocabulary of a resumed run on texts; None builds one.
      layout: one device, or several.
      given: the data; None loads those of the configuration.

    Raises:
      UserError: names, data, partition or shapes are invalid.
    """
    build_sampler(config.participation)  # its errors come before data are read
    local = build_local_training(config)
    names = network_names(config.model.group)
    given = given or data.build_data(fields.resolved_data_fields(config), tokens)
    dataset, partition, num_examples = given
    privacy.check_vocabulary(config, dataset)
    spec = Spec(dataset.num_classes, config.model.feat_dim)
    network = network_factory(dataset, spec, config.model.compute_dtype)
    cohorts = build_cohorts(names, partition, network)
    memory.check_networks(cohorts, spec)
    privacy.check_networks(config.privacy.unit, cohorts)
    shown = public_inputs(dataset), two_examples(dataset)
    parts = partial(build_parts, config, spec, num_examples, network, *shown)
    built = parts({})
    method, sampler = built.method, built.sampler
    plain = jax.config.jax_disable_jit  # type: ignore[attr-defined]
    external = is_external(METHODS[config.method.name])
    if external and not plain:  # which shows its own errors
        net = cohorts[0].net

        def trace(values):
            check_method(parts(values).method, net, local, spec, shown[1])

        jax.eval_shape(trace, traced_floats(config))  # floats as in compiled programs
    max_participants = max_rows_of(
        method, sampler, cohorts[0].net, len(partition.train)
    )
    choices = execution_choices(config, platform, layout)
    cohorts = plan_execution(cohorts, choices, partition, local, max_participants)
    metrics = metrics_by_name(config.eval.metrics)
    cohorts = make_stateless(
        cohorts,
        config.clients.store,
        method=method,
        local=local,
        spec=spec,
        dataset=dataset,
        metrics=metrics,
    )
    # for counts that are equal on all platforms
    plain = network_factory(dataset, spec, config.model.compute_dtype, ops.LAX)
    plain_parts = partial(build_parts, config, spec, num_examples, plain, *shown)
    seconds = simulated_devices.floats_of(
        config, cohorts, plain_parts, plain, spec, dataset
    )
    floats = traced_floats(config) | seconds
    if seconds:
        built = parts(seconds)  # with simulated time
    size = memory.client_state_bytes(cohorts, method, local, spec)
    store = choose_store(config.clients.store, platform, cohorts, size)
    return Experiment(
        spec=spec,
        **built._asdict(),
        floats=floats,
        parts=parts,
        cohorts=cohorts,
        metrics=metrics,
        dataset=dataset,
        partition=partition,
        train=tuple(
            batches.tables([partition.train[i] for i in c.ids]) for c in cohorts
        ),
        test=evaluation_tables(cohorts, partition),
        counts=partition_stats.counts(dataset, partition),
        formats=build_wire(config.wire),
        check_wire=config.wire.check,
        fit=config.clients_at_once == "auto",
        store=store,
        layout=layout,
    )


def federation(exp: Experiment) -> Federation:
    """Returns the federation of an experiment, for `federation.one_round`."""
    return Federation(
        exp.parts,
        exp.cohorts,
        exp.formats,
        examples(exp.dataset),
        jax.tree.map(jnp.asarray, exp.train),
        tuple(jnp.asarray(exp.counts.train[list(c.ids)]) for c in exp.cohorts),
    )


def execution_choices(
    config: ml_collections.ConfigDict, platform: str, layout: OneDevice
) -> ExecutionChoices:
    """Returns the fields that decide how clients are trained and evaluated."""
    return ExecutionChoices(
        at_once=config.clients_at_once,
        evaluated=num_evaluated(config),
        seed=fields.resolved_data_fields(config).seed,
        platform=platform,
        cores=os.cpu_count() or 1,
        devices=layout.num_devices,
    )


def build_parts(
    config: ml_collections.ConfigDict,
    spec: Spec,
    num_examples: int,
    network: Callable[..., Net],
    public: np.ndarray | None,
    examples: Examples,
    values: Floats,
) -> Parts:
    """Builds method, local training and sampler, with some floats replaced.

    Args:
      num_examples, network, public: as in `build_method`.
      examples: two of them, for the shapes of uploads.
      values: dotted path -> float or traced scalar that replaces the configuration's.

    Raises:
      UserError: the method decides something in Python by a float that is traced.
    """
    config = replace_floats(config, values)
    try:
        given = num_examples, config, network, public
        method = build_method(config.method, spec, *given)
        parts = Parts(
            method=robustness.with_robustness(method, config),
            local=privacy.private_local_training(config, build_local_training(config)),
            sampler=build_sampler(config.participation),
            dropout=config.participation.dropout,
        )
        parts = simulated_devices.with_time(parts, config, values, spec, examples)
        return parts.collecting() if config.wire.check else parts
    except jax.errors.ConcretizationTypeError as e:
        raise UserError(
            f"method {config.method.name!r} decides something in Python by the value "
            "of a float, but floats are arguments of its compiled programs; decide it "
            "with jax.numpy, or annotate the argument as Annotated[float, STATIC] "
            f"(jaxproto.hyperparameters){failing_line(e)}."
        ) from e


def build_wire(config) -> Wire:
    """Returns the number formats of both directions."""
    up, down = (
        choose_from(f"wire.{key}", config[key], wire.FORMATS) for key in ("up", "down")
    )
    return Wire(up, down)


def build_method(
    config,
    spec: Spec,
    num_examples: int = 0,
    run=None,
    network: Callable[..., Net] | None = None,
    public: np.ndarray | None = None,
) -> Method:
    """Builds the method of a configuration.

    Args:
      config: the fields `method`.
      num_examples: training examples of all clients; replaces an argument of that name
        that is 0.
      run: the full configuration, for `registries.INHERITED_VALUES` and
        `DERIVED_ARGUMENTS`.
      network: name -> network, for a method with a network of its own.
      public: inputs of the public examples, for an argument of that name.
    """
    name = choose_from("method", config.name, METHODS)
    arguments: dict[str, Any] = {}
    for key, value in config.items():
        if key in registries.OPTIONS:
            choices = registries.OPTIONS[key]
            arguments[key] = choices[choose_from(f"method.{key}", value, choices)]
        elif key in NETWORKS:
            if network is None:
                raise ValueError(f"method {name!r} has a network: give `network`")
            value, dim = choose_from(f"method.{key}", value, models.NETS), spec.feat_dim
            own = {"feat_dim": min(config.aux_dim, dim)} if "aux_dim" in config else {}
            arguments[key] = network(value, **own)
        elif key != "name":
            arguments[key] = value
    if arguments.get("num_examples") == 0:
        arguments["num_examples"] = num_examples
    for key, inherited_value in registries.INHERITED_VALUES.items():
        if arguments.get(key) == 0:
            del arguments[key]  # without `run` the method's own default
            if run is not None:
                arguments[key] = inherited_value(run)
    parameters = inspect.signature(METHODS[name]).parameters if run is not None else ()
    arguments |= {
        k: f(run, arguments) for k, f in DERIVED_ARGUMENTS.items() if k in parameters
    }
    if "public" in parameters:
        arguments["public"] = public
    arguments = registries.group_arguments(METHODS[name], arguments)
    return dataclasses.replace(make_method(name, spec, arguments), name=name)


def network_factory(
    dataset: Dataset,
    spec: Spec,
    compute_dtype: str = "float32",
    forms: Ops | None = None,
) -> Callable[[str], Net]:
    """Returns the function name -> network for the inputs of a data set.

    Args:
      forms: Forms of the operations; None is those of the platform.
    """
    return partial(
        models.build,
        input_shape=tuple(dataset.x.shape[1:]),
        num_classes=spec.num_classes,
        feat_dim=spec.feat_dim,
        ops=forms,
        compute_dtype=compute_dtype,
        vocab_size=len(dataset.tokens) or None,
    )


def public_inputs(dataset: Dataset) -> np.ndarray | None:
    """Returns the inputs of the public examples [P, ...]; None without any."""
    return None if dataset.public is None else np.asarray(dataset.x[dataset.public])


def examples(dataset: Dataset) -> Examples:
    """Puts all examples of a data set on the device."""
    return jax.device_put(host_examples(dataset))  # a memory map without a copy on CPU


def host_examples(dataset: Dataset) -> Examples:
    """Returns all examples of a data set on the host."""
    x: Any = flatten_inputs(dataset.x)
    labels = dataset.y, dataset.public
    y, public = jax.tree.map(lambda a: np.asarray(a, np.int32), labels)
    return Examples(x, y, public, dataset.x.shape[1:])


def flatten_inputs(x: np.ndarray) -> np.ndarray:
    """Reshapes inputs [N, ...] to [N, F] on the host, without a copy."""
    return np.asarray(x).reshape(len(x), math.prod(x.shape[1:]))


def check_experiment(exp: Experiment, rule: str = ""):
    """Raises UserError before training if method, networks and data do not fit.

    Args:
      rule: Prediction rule of early stopping; "" if it names none.
    """
    ids = np.array([i for cohort in exp.cohorts for i in evaluated_ids(cohort)])
    ids = ids[np.asarray(exp.method.scored(ids))]
    if not len(ids):
        raise UserError(
            "all clients that are evaluated are hostile, and their results are left "
            "out; lower attack.share, or raise eval.clients."
        )
    held_out = [exp.partition.validation[i] for i in ids if exp.partition.validation]
    if held_out and not any(map(len, held_out)):
        raise UserError(
            "no client that is evaluated has validation examples: a client gives "
            "floor(data.validation_share * its training examples); raise the share."
        )
    x = jax.eval_shape(batches.normalise_inputs, jnp.zeros_like(exp.dataset.x[:1]))
    check_cohorts(exp.method, exp.cohorts, exp.spec, x, exp.metrics)
    memory.check_experiment_memory(exp)
    sizes, size = [len(rows) for rows in exp.partition.train], exp.local.batch_size
    if not np.any(exp.local.steps_per_epoch(np.asarray(sizes), size)):
        raise UserError(
            f"no client would train: local.batch_size is {size}, but the largest "
            f"client has {max(sizes)} examples; make it smaller, or set local.short to "
            "wrap."
        )
    check_early_stopping_rule(exp, rule)


def check_early_stopping_rule(exp: Experiment, rule: str):
    """Raises UserError if early stopping names a rule that is not evaluated."""
    if not rule:
        return
    cohort, method = exp.cohorts[0], exp.method
    shapes = statelessness.client_shapes(
        method, cohort.net, exp.local, exp.spec.num_classes, two_examples(exp.dataset)
    )
    rules = cohort.scoring.rules or statelessness.rule_names(method, cohort.net, shapes)
    choose_from("early_stopping.rule", rule, rules)
