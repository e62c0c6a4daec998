"""The clients of a run: cohorts, their index tables, and how they train."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import execution, models
from jaxproto.client import LocalTraining
from jaxproto.data.host_memory import host_memory_bytes
from jaxproto.data.partitions.registry import Partition
from jaxproto.data.registry import Dataset
from jaxproto.errors import UserError
from jaxproto.evaluation import BY_CLIENT, BY_EQUAL_CLIENTS, BY_EXAMPLE, Scoring
from jaxproto.execution import ExecutionMode
from jaxproto.experiment import statelessness
from jaxproto.federation import Cohort
from jaxproto.method import Method
from jaxproto.metrics import Metric, besides_accuracy
from jaxproto.persistence import STATELESS
from jaxproto.types import Examples, Net, Shard, Spec


@dataclasses.dataclass(frozen=True)
class CohortPlan(Cohort):
    """A cohort, and how a run trains and evaluates it."""

    num_lanes: int = 1  # calls that train its participants side by side
    scoring: Scoring = BY_CLIENT
    sample: tuple[int, ...] = ()  # places in `ids` of those that are evaluated; () all

    @property
    def stateless(self) -> bool:
        """Returns whether clients keep no state between rounds."""
        return self.persistence is STATELESS

    @property
    def evaluated(self) -> np.ndarray:
        """Returns the places in `ids` of the clients that are evaluated."""
        return np.asarray(self.sample or range(len(self.ids)))


def build_cohorts(
    names: tuple[str, ...], partition: Partition, network: Callable[[str], Net]
) -> tuple[CohortPlan, ...]:
    """Client i gets entry i mod n; clients of one architecture form a cohort.

    Within a cohort the largest client comes first, as the padded forms want it.
    """
    clients = sorted(
        range(len(partition.train)), key=lambda i: -len(partition.train[i])
    )
    cohorts: list[CohortPlan] = []
    for name in dict.fromkeys(names):
        ids = tuple(i for i in clients if models.assign_networks(names, [i]) == (name,))
        cohorts += [CohortPlan(name, network(name), ids)] * bool(ids)
    return tuple(cohorts)


class ExecutionChoices(NamedTuple):
    """What of a configuration says how the clients of a run train and are kept."""

    at_once: str  # `clients_at_once`
    store: str  # `clients.store`
    evaluated: int  # `eval.clients`, 0 is all
    seed: int  # `data.seed`
    platform: str  # of the device
    cores: int  # of the machine
    devices: int = 1  # that the rows of a cohort are dealt to


def plan_execution(
    cohorts: Sequence[CohortPlan],
    choices: ExecutionChoices,
    partition: Partition,
    local: LocalTraining,
    max_participants: int,
) -> tuple[CohortPlan, ...]:
    """Cohorts with what says how they train and whom an evaluation asks.

    Args:
      max_participants: clients that take part in a round.
    """
    evaluated = set(
        sample_evaluated(choices.evaluated, len(partition.train), choices.seed)
    )

    def one(cohort):
        num_rows = min(max_participants, len(cohort.ids))
        work = steps_per_round(partition, cohort.ids, local)[
            : num_rows : choices.devices
        ]
        return dataclasses.replace(
            cohort,
            mode=build_mode(choices.at_once, choices.platform, work),
            max_participants=num_rows,
            num_lanes=num_lanes(choices, len(cohorts), num_rows),
            sample=tuple(k for k, i in enumerate(cohort.ids) if i in evaluated),
        )

    return tuple(map(one, cohorts))


SAMPLED = 20  # stream of the seed


def num_lanes(choices: ExecutionChoices, cohorts: int, num_rows: int) -> int:
    """Programs that train a cohort side by side: on a CPU, so that no core waits.

    The programs of other cohorts run at the same time, too.
    """
    if choices.platform != "cpu" or choices.at_once not in ("auto", "one"):
        return 1
    if choices.devices > 1:
        return 1
    return max(1, min(-(-choices.cores // cohorts), num_rows))


def with_all_in_one_call(cohort: CohortPlan) -> CohortPlan:
    """Returns the cohort with rows for all clients, trained by one call."""
    return dataclasses.replace(cohort, max_participants=0, num_lanes=1)


def sample_evaluated(number: int, clients: int, seed: int) -> list[int]:
    """The clients that evaluations ask, the same in every round; 0 is all.

    Args:
      seed: of the partition, so that runs which differ in `seed` ask the same.
    """
    if not 0 < number < clients:
        return list(range(clients))
    drawn = np.random.default_rng([seed, SAMPLED]).choice(clients, number, False)
    return sorted(drawn.tolist())


def evaluated_ids(cohort: CohortPlan) -> tuple[int, ...]:
    """The clients of a cohort that are evaluated, in its order."""
    return tuple(cohort.ids[k] for k in cohort.evaluated)


NODES = "nodes"  # where clients are on nodes of their own: `jaxproto.flower`
OFF_DEVICE = (
    "host",
    "disk",
    NODES,
)  # where the device has the clients of a round alone


def choose_store(
    choice: str, platform: str, cohorts: Sequence[CohortPlan], size: int
) -> str:
    """Where clients are between rounds: what `clients.store` may be, and not "auto".

    Args:
      choice: `clients.store`.
      platform: of the device; on a CPU, its memory is that of the host.
      size: bytes of all clients.

    Raises:
      UserError: all clients take part in a round, so that the device must hold them.
    """
    if any(c.stateless for c in cohorts):
        return "none"
    hosted, whole = choice in OFF_DEVICE, not any(c.sampled for c in cohorts)
    if hosted and whole:
        raise UserError(
            f"clients.store is {choice}, but all clients may take part in a round, so "
            "that the device must hold them; use auto, or let a share take part "
            "(participation.law=uniform, participation.fraction=0.1)."
        )
    if choice != "auto" or whole:
        return choice if hosted else "device"
    host_memory = host_memory_bytes()
    on_device = host_memory if platform == "cpu" else device_memory() or host_memory
    if size <= on_device / 3:
        return "device"
    return "host" if platform != "cpu" and size <= host_memory / 2 else "disk"


def device_memory() -> float | None:
    """Bytes of the first device's memory, where it says."""
    return (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit")


def make_stateless(
    cohorts: Sequence[CohortPlan],
    choice: str,
    *,
    method: Method,
    local: LocalTraining,
    spec: Spec,
    dataset: Dataset,
    metrics: tuple[Metric, ...],
) -> tuple[CohortPlan, ...]:
    """Cohorts whose clients keep nothing, where nothing that they had is ever read.

    By itself where a part of the clients takes part in a round; whoever asks for the
    networks of all clients says `clients.store=device`.

    Args:
      choice: `clients.store`.
      metrics: of every evaluation.

    Raises:
      UserError: it is "none" and clients must keep something.
    """
    partial_ = any(c.sampled for c in cohorts)
    if choice != "none" and not (choice == "auto" and partial_):
        return tuple(cohorts)
    examples = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), two_examples(dataset)
    )
    classes = spec.num_classes
    free = [
        _rules(
            method,
            c,
            local,
            statelessness.client_shapes(method, c.net, local, classes, examples, 2),
        )
        for c in cohorts
    ]
    if choice == "none" and not all(free):
        name = cohorts[free.index(())].name
        raise UserError(
            f"clients.store is none, but with method {method.name!r} clients of cohort "
            f"{name!r} keep something of their own between rounds, or nothing of them "
            "could be evaluated; use auto."
        )
    if len({*free}) > 1 or not free[0]:  # some keep what others do not: all are kept
        return tuple(cohorts)
    scoring = BY_EQUAL_CLIENTS if besides_accuracy(metrics) else BY_EXAMPLE
    return tuple(
        dataclasses.replace(
            c, scoring=scoring._replace(rules=own), persistence=STATELESS
        )
        for c, own in zip(cohorts, free, strict=True)
    )


def _rules(
    method: Method,
    cohort: Cohort,
    local: LocalTraining,
    given: statelessness.ClientShapes,
) -> tuple[str, ...]:
    """The rules by which clients that keep nothing are evaluated; () keeps them."""
    if statelessness.upload_depends_on_state(method, cohort.net, local, given):
        return ()
    return statelessness.client_independent_rules(method, cohort.net, given)


def two_examples(dataset: Dataset) -> Examples:
    """Two examples of a data set."""
    public = None if dataset.public is None else jnp.zeros(1, jnp.int32)
    return Examples(
        jnp.zeros((2, *dataset.x.shape[1:]), dataset.x.dtype),
        jnp.zeros(2, jnp.int32),
        public,
    )


def evaluation_tables(
    cohorts: Sequence[CohortPlan], partition: Partition
) -> tuple[Shard, ...]:
    """Returns what an evaluation of each cohort goes over."""
    rows = ([partition.test[i] for i in evaluated_ids(c)] for c in cohorts)
    return tuple(c.scoring.tests(own) for c, own in zip(cohorts, rows, strict=True))


def build_mode(choice: str, platform: str, steps_K: list[int]) -> ExecutionMode:
    """How the clients of a cohort run: auto, one, all, or a number at a time."""
    if choice == "auto":
        choice = "one" if platform == "cpu" else "all"
    if choice == "one":
        return execution.one_by_one()
    if choice == "all":
        segments = execution.plan_segments(steps_K)
        return execution.in_segments(
            segments, -(-len(steps_K) // max(len(segments), 1))
        )
    if not choice.isdecimal() or int(choice) < 1:
        raise UserError(
            f"clients_at_once is {choice!r}; it is auto, one, all or a number of "
            "clients such as 4."
        )
    return execution.in_chunks(int(choice))


def steps_per_round(partition: Partition, ids, local: LocalTraining) -> list[int]:
    """Local steps per round of the clients `ids`."""
    sizes = np.asarray([len(partition.train[i]) for i in ids])
    return (
        np.asarray(local.steps_per_epoch(sizes, local.batch_size)) * local.epochs
    ).tolist()
