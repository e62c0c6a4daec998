"""Builds the functions, networks and data of a run from its configuration."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from jaxproto import models
from jaxproto.config import features, fields
from jaxproto.core import batches
from jaxproto.core.method import Method
from jaxproto.core.types import Array, Examples, Net, Shard, Spec
from jaxproto.data import partition_stats
from jaxproto.data.dataset import Dataset
from jaxproto.data.partitions.partition import (
    FederationData,
    Partition,
)
from jaxproto.devices.mesh import ONE, OneDevice, rows_per_device
from jaxproto.errors import UserError, failing_line
from jaxproto.experiment import memory
from jaxproto.experiment.cohorts import (
    OFF_DEVICE,
    CohortPlan,
    build_cohorts,
    choose_store,
    evaluated_ids,
    evaluation_tables,
    make_stateless,
    plan_execution,
    usable_cores,
)
from jaxproto.experiment.data import build_data
from jaxproto.experiment.local_training import build_local_training
from jaxproto.experiment.loss_mask import check_loss_mask
from jaxproto.experiment.method_builder import (
    build_method,
    network_factory,
    public_inputs,
)
from jaxproto.experiment.method_check import check_own_method
from jaxproto.experiment.sampler import build_sampler, check_sampler
from jaxproto.experiment.schedule import check_schedule
from jaxproto.experiment.traced import Floats, replace_floats, traced_floats
from jaxproto.methods import METHODS
from jaxproto.metrics import Metric, metrics_by_name
from jaxproto.models.ops import ops
from jaxproto.origin import is_external
from jaxproto.round import participation
from jaxproto.round.client import LocalTraining
from jaxproto.round.federation import Parts, Setup
from jaxproto.round.simulated_time import Timing
from jaxproto.wire import Wire


class Experiment(NamedTuple):
    """Everything that a run needs besides its state."""

    spec: Spec
    method: Method
    local: LocalTraining
    sampler: participation.Sampler
    dropout: float | Array  # probability that a trained update is lost
    timing: Timing | None  # simulated seconds, if any
    floats: Floats  # arguments of the compiled programs
    parts: Callable[[Floats], Parts]  # builds `method` to `timing` with other floats
    network: Callable[..., Net]  # name -> network for the inputs of the data set
    cohorts: tuple[CohortPlan, ...]
    metrics: tuple[Metric, ...]  # of every evaluation
    dataset: Dataset
    partition: Partition
    train: tuple[Shard, ...]  # per cohort
    test: tuple[Shard, ...]  # and validation, of evaluated clients; see `Scoring.tests`
    counts: partition_stats.Counts  # examples per client and class, of each split
    formats: Wire  # number formats in both directions
    check_wire: bool  # encode and decode every message
    fit: bool  # train fewer clients at a time if all do not fit into memory
    store: str = "device"  # where clients are between rounds; see `choose_store`
    layout: OneDevice = ONE  # or several devices
    cores: int = 1  # of one CPU, on which calls of programs run side by side

    @property
    def resident(self) -> tuple[CohortPlan, ...]:
        """Cohorts whose clients are in the state of the run: all or none."""
        return () if self.store in OFF_DEVICE else self.cohorts

    @property
    def counted_ids(self) -> np.ndarray:
        """Returns the ids of the clients whose results count, cohort after cohort."""
        id_K = np.array([i for cohort in self.cohorts for i in evaluated_ids(cohort)])
        return id_K[np.asarray(self.method.scored(id_K))]

    def num_calls(self, cohort: CohortPlan) -> int:
        """Returns the number of calls that train a cohort side by side.

        The calls of all cohorts run at the same time, and together use all cores.
        """
        return max(1, min(-(-self.cores // len(self.cohorts)), cohort.num_rows))

    def rows_of_call(self, num_rows: int, calls: int = 1) -> int:
        """Returns the rows of each of several calls, with the padding of devices."""
        devices = self.layout.num_devices
        return rows_per_device(-(-num_rows // calls), devices) * devices


def experiment(
    config: ml_collections.ConfigDict,
    platform: str,
    tokens: tuple[str, ...] | None = None,
    layout: OneDevice = ONE,
    data: FederationData | None = None,
) -> Experiment:
    """Builds and checks everything that can be checked before training.

    Args:
      config: checked by `config.check`.
      platform: platform of the device, "cpu", "gpu" or "tpu".
      tokens: vocabulary of a resumed run on texts; None builds one.
      layout: one device, or several.
      data: data set and partition; None loads those of the configuration.

    Raises:
      UserError: names, data, partition or shapes are invalid.
    """
    check_sampler(config)  # its errors come before data are read
    local = build_local_training(config)
    check_schedule(config.optimizer.schedule, local.schedule)
    names = models.group_members(config.model.group)
    data = data or build_data(fields.resolved_data_fields(config), tokens)
    dataset, partition, _ = data
    spec = Spec(dataset.num_classes, config.model.feat_dim)
    network = network_factory(dataset, spec, config.model.compute_dtype)
    cohorts = build_cohorts(names, partition, network)
    memory.check_networks(cohorts, spec)
    for feature in features.active(config):
        feature.check_data(config, dataset, cohorts)
    parts = partial(build_parts, config, spec, data, network)
    built = parts({})
    method, sampler = built.method, built.sampler
    without_jit = jax.config.jax_disable_jit  # type: ignore[attr-defined]
    external = is_external(METHODS[config.method.name])
    if external and not without_jit:  # plain Python shows errors by itself
        check_own_method(
            lambda values: parts(values).method,
            traced_floats(config),
            cohorts[0].net,
            local,
            spec,
            dataset,
        )
        check_loss_mask(method, cohorts[0].net, local, spec, dataset)
    num_clients, at_once = len(partition.train), config.clients_at_once
    cohorts = plan_execution(
        cohorts,
        config,
        partition,
        local,
        max_participants=participation.max_rows_of(
            method, sampler, cohorts[0].net, num_clients
        ),
        platform=platform,
        num_devices=layout.num_devices,
    )
    metrics = metrics_by_name(config.eval.metrics)
    cohorts = make_stateless(
        cohorts,
        config.clients.store,
        method=method,
        local=local,
        dataset=dataset,
        metrics=metrics,
    )
    # networks whose counts of operations are equal on all platforms
    lax_network = network_factory(dataset, spec, config.model.compute_dtype, ops.LAX)
    lax_parts = partial(build_parts, config, spec, data, lax_network)
    arrays = features.arrays(config, cohorts, lax_parts, lax_network, dataset)
    floats = traced_floats(config) | arrays
    if arrays:
        built = parts(arrays)
    size = memory.client_state_bytes(cohorts, method, local, dataset)
    store = choose_store(config.clients.store, platform, cohorts, size)
    return Experiment(
        spec=spec,
        **built._asdict(),
        floats=floats,
        parts=parts,
        network=network,
        cohorts=cohorts,
        metrics=metrics,
        dataset=dataset,
        partition=partition,
        train=tuple(
            batches.tables([partition.train[i] for i in c.ids]) for c in cohorts
        ),
        test=evaluation_tables(cohorts, partition),
        counts=partition_stats.counts(dataset, partition),
        formats=Wire(config.wire.up, config.wire.down),
        check_wire=config.wire.check,
        fit=at_once == "auto",
        store=store,
        layout=layout,
        cores=1 if layout.num_devices > 1 else usable_cores(at_once, platform),
    )


def federation(exp: Experiment) -> Setup:
    """Returns the federation of an experiment, for `federation.one_round`."""
    return Setup(
        exp.parts,
        exp.cohorts,
        exp.formats,
        examples(exp.dataset),
        jax.tree.map(jnp.asarray, exp.train),
        tuple(jnp.asarray(exp.counts.train[list(c.ids)]) for c in exp.cohorts),
    )


def build_parts(
    config: ml_collections.ConfigDict,
    spec: Spec,
    data: FederationData,
    network: Callable[..., Net],
    values: Floats,
) -> Parts:
    """Builds the parts of a federation, with some floats replaced.

    Args:
      network: name -> network.
      values: dotted path -> float or traced scalar that replaces the configuration's.

    Raises:
      UserError: the method decides something in Python by a float that is traced.
    """
    config = replace_floats(config, values)
    try:
        public = public_inputs(data.dataset)
        method = build_method(
            config.method, spec, data.num_examples, config, network, public
        )
        parts = Parts(
            method=method,
            local=build_local_training(config),
            sampler=build_sampler(config.participation),
            dropout=config.participation.dropout,
        )
        parts = features.wrap(parts, config, values, data.dataset)
        return parts.collecting() if config.wire.check else parts
    except jax.errors.ConcretizationTypeError as e:
        raise UserError(
            f"method {config.method.name!r} decides something in Python by the value "
            "of a float, but floats are arguments of its compiled programs; decide it "
            "with jax.numpy, or annotate the argument as Annotated[float, STATIC] "
            f"(jaxproto.core.hyperparameters){failing_line(e)}."
        ) from e


def examples(dataset: Dataset) -> Examples:
    """Puts all examples of a data set on the device."""
    return jax.device_put(host_examples(dataset))  # on CPU a memory map is not copied


def host_examples(dataset: Dataset) -> Examples:
    """Returns all examples of a data set on the host."""
    return batches.host_examples(dataset.x, dataset.y, dataset.public)
