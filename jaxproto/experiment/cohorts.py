"""Cohorts of a run: their clients, execution mode, store and evaluation."""

import dataclasses
import os
from collections.abc import Callable, Sequence

import jax
import ml_collections
import numpy as np

from jaxproto import models
from jaxproto.config.checks import num_evaluated
from jaxproto.config.fields import resolved_data_fields
from jaxproto.core.method import Method
from jaxproto.core.types import Net, Shard
from jaxproto.data.dataset import Dataset
from jaxproto.data.host_memory import host_memory_bytes
from jaxproto.data.partitions.partition import (
    Partition,
)
from jaxproto.errors import UserError
from jaxproto.experiment import statelessness
from jaxproto.metrics import Metric, besides_accuracy
from jaxproto.round import execution
from jaxproto.round.client import LocalTraining
from jaxproto.round.cohort import Cohort, group_clients
from jaxproto.round.evaluation import BY_CLIENT, BY_EQUAL_CLIENTS, BY_EXAMPLE, Scoring
from jaxproto.round.kept_state import STATELESS


@dataclasses.dataclass(frozen=True)
class CohortPlan(Cohort):
    """A cohort with its evaluation."""

    scoring: Scoring = BY_CLIENT
    sample: tuple[int, ...] | None = None  # indices in `ids` of evaluated clients

    @property
    def stateless(self) -> bool:
        """Returns whether clients keep no state between rounds."""
        return self.kept_state is STATELESS

    @property
    def evaluated(self) -> np.ndarray:
        """Returns the indices in `ids` that programs evaluate: one if none counts."""
        return np.asarray(self.counted or [0])

    @property
    def counted(self) -> Sequence[int]:
        """Returns the indices in `ids` of the clients that the sample has, or all."""
        return range(len(self.ids)) if self.sample is None else self.sample


def build_cohorts(
    names: tuple[str, ...], partition: Partition, network: Callable[[str], Net]
) -> tuple[CohortPlan, ...]:
    """Builds the cohorts: client i has network i mod n."""
    sizes = [len(rows) for rows in partition.train]
    groups = group_clients(models.assign_networks(names, range(len(sizes))), sizes)
    return tuple(CohortPlan(name, network(name), groups[name]) for name in groups)


def plan_execution(
    cohorts: Sequence[CohortPlan],
    config: ml_collections.ConfigDict,
    partition: Partition,
    local: LocalTraining,
    *,
    max_participants: int,
    platform: str,
    num_devices: int,
) -> tuple[CohortPlan, ...]:
    """Returns cohorts with their execution mode and evaluated clients."""
    number, seed = num_evaluated(config), resolved_data_fields(config).seed
    evaluated = {*sample_evaluated(number, len(partition.train), seed)}

    def plan(cohort):
        num_rows = min(max_participants, len(cohort.ids))
        steps_K = steps_per_round(partition, cohort.ids, local)
        steps_K = steps_K[:num_rows:num_devices]  # on the first device
        return dataclasses.replace(
            cohort,
            mode=execution.build_mode(config.clients_at_once, platform, steps_K),
            max_participants=num_rows,
            sample=tuple(k for k, i in enumerate(cohort.ids) if i in evaluated),
        )

    return tuple(map(plan, cohorts))


SAMPLED = 20  # stream of the seed, for `sample_evaluated`


def usable_cores(choice: str, platform: str) -> int:
    """Returns the number of cores on which programs run side by side.

    Args:
      choice: `clients_at_once`.
      platform: platform of the device.
    """
    one_by_one = platform == "cpu" and choice in ("auto", "one")
    return (one_by_one and os.cpu_count()) or 1


def with_all_in_one_call(cohort: CohortPlan) -> CohortPlan:
    """Returns the cohort with rows for all clients, trained by one call."""
    return dataclasses.replace(cohort, max_participants=0)


def sample_evaluated(number: int, clients: int, seed: int) -> list[int]:
    """Returns the clients that every evaluation uses; `number` 0 is all.

    Args:
      seed: seed of the partition, so that runs that differ in `seed` agree.
    """
    if not 0 < number < clients:
        return list(range(clients))
    drawn = np.random.default_rng([seed, SAMPLED]).choice(clients, number, False)
    return sorted(drawn.tolist())


def evaluated_ids(cohort: CohortPlan) -> tuple[int, ...]:
    """Returns the ids of a cohort's evaluated clients, in the cohort's order."""
    return tuple(cohort.ids[k] for k in cohort.counted)


NODES = "nodes"  # store of clients that are processes: `jaxproto.nodes.flower`
OFF_DEVICE = ("host", "disk", NODES)  # the device has only the participants


def choose_store(
    choice: str, platform: str, cohorts: Sequence[CohortPlan], size: int
) -> str:
    """Returns where clients are kept between rounds; resolves "auto".

    Args:
      choice: `clients.store`.
      platform: platform of the device; a CPU shares the memory of the host.
      size: bytes of all clients.

    Raises:
      UserError: all clients may take part in a round, so the device must hold them.
    """
    if any(c.stateless for c in cohorts):
        return "none"
    off_device, all_train = choice in OFF_DEVICE, not any(c.sampled for c in cohorts)
    if off_device and all_train:
        raise UserError(
            f"clients.store is {choice}, but all clients of each network may take part "
            "in a round, so that the device must hold them; use auto, or let a smaller "
            "share take part (participation.law=uniform, participation.fraction=0.1)."
        )
    if choice != "auto" or all_train:
        return choice if off_device else "device"
    host_memory = host_memory_bytes()
    on_device = host_memory if platform == "cpu" else device_memory() or host_memory
    if size <= on_device / 3:
        return "device"
    return "host" if platform != "cpu" and size <= host_memory / 2 else "disk"


def device_memory() -> int | None:
    """Returns the bytes of the first device that JAX may use; None if unknown (CPU)."""
    return (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")


def make_stateless(
    cohorts: Sequence[CohortPlan],
    choice: str,
    *,
    method: Method,
    local: LocalTraining,
    dataset: Dataset,
    metrics: tuple[Metric, ...],
) -> tuple[CohortPlan, ...]:
    """Marks cohorts as stateless where nothing reads the clients' earlier state.

    `clients.store=none` requires it; `auto` allows it if only a sample of the clients
    takes part in a round.

    Args:
      choice: `clients.store`.

    Raises:
      UserError: `choice` is "none" and clients need a state.
    """
    sampled = any(c.sampled for c in cohorts)
    if choice != "none" and not (choice == "auto" and sampled):
        return tuple(cohorts)
    rules: list[tuple[str, ...]] = []  # () if clients of the cohort need their state
    for c in cohorts:
        shapes = statelessness.client_shapes(method, c.net, local, dataset)
        if statelessness.upload_depends_on_state(method, c.net, local, shapes):
            rules.append(())
        else:
            rules.append(statelessness.client_independent_rules(method, c.net, shapes))
    if choice == "none" and not all(rules):
        name = cohorts[rules.index(())].name
        raise UserError(
            f"clients.store is none, but with method {method.name!r} clients of cohort "
            f"{name!r} keep something of their own between rounds, or nothing of them "
            "could be evaluated; use auto."
        )
    if len({*rules}) > 1 or not rules[0]:  # if one cohort needs its state, all keep it
        return tuple(cohorts)
    scoring = BY_EQUAL_CLIENTS if besides_accuracy(metrics) else BY_EXAMPLE
    scoring = scoring._replace(rules=rules[0])
    return tuple(
        dataclasses.replace(c, scoring=scoring, kept_state=STATELESS) for c in cohorts
    )


def evaluation_tables(
    cohorts: Sequence[CohortPlan], partition: Partition
) -> tuple[Shard, ...]:
    """Returns the index tables of the evaluation examples of each cohort."""
    return tuple(c.scoring.tests(evaluated_rows(c, partition)) for c in cohorts)


def evaluated_rows(cohort: CohortPlan, partition: Partition) -> list[list[np.ndarray]]:
    """Returns the test rows that a cohort's programs evaluate, and validation rows."""
    splits = filter(None, (partition.test, partition.validation))
    return [[split[cohort.ids[k]] for k in cohort.evaluated] for split in splits]


def steps_per_round(partition: Partition, ids, local: LocalTraining) -> list[int]:
    """Returns the local steps per round of the clients `ids`."""
    return local.steps_per_round([len(partition.train[i]) for i in ids])
