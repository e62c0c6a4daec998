"""Description of a partition: class counts, local steps, label skew, majority class."""

import csv
import io
import os
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import rich.table
from rich.markup import escape
from scipy.spatial import distance

from jaxproto.core.hyperparameters import MAX_INT
from jaxproto.data.dataset import Dataset
from jaxproto.data.partitions.partition import (
    Partition,
)
from jaxproto.errors import UserError
from jaxproto.io import atomic

MANY_CLASSES = 10  # classes of a client beyond which the table shows only some
SHOWN = 5  # most frequent classes, shown beyond MANY_CLASSES; the csv has all
MOST_CLIENTS = 50  # clients shown in the table; the csv has all


class Counts(NamedTuple):
    """Numbers of examples per client and class."""

    train: np.ndarray  # [K, C]
    test: np.ndarray  # [K, C]
    validation: np.ndarray | None = None  # [K, C]

    def splits(self) -> dict[str, np.ndarray]:
        """Returns the counts by split, with those of validation if there are any."""
        return {k: c for k, c in self._asdict().items() if c is not None}


class RoundWork(NamedTuple):
    """Local steps of each client, and the share of steps that are padding."""

    steps: np.ndarray  # [K] local steps per round
    dropped: np.ndarray  # [K] training examples outside the whole batches of an epoch
    total_waste: float  # share of padding over all cohorts


class Skew(NamedTuple):
    """Distances from each client's distribution of training labels to that of all.

    Both distances are 0 for equal distributions, and at most 1.
    """

    variation: np.ndarray  # [K] total variation, 1/2 sum_c |p_c - q_c|
    shannon: np.ndarray  # [K] Jensen-Shannon distance, base 2: the root of the mean
    # relative entropy, in bits, of both distributions to their mean


class MajorityShare(NamedTuple):
    """Accuracy of always predicting the majority training class of a client."""

    pooled: float  # over test examples
    client_mean: float
    examples: int  # test examples of all clients


def counts(dataset: Dataset, partition: Partition) -> Counts:
    """Counts the examples of each client by class."""

    def count(rows):
        return np.bincount(dataset.y[rows], minlength=dataset.num_classes)

    splits = filter(None, partition)  # without an empty validation part
    return Counts(*(np.stack([count(rows) for rows in split]) for split in splits))


def write_csv(path: str | os.PathLike, counts: Counts) -> None:
    """Writes one line per client and split: client, split, one column per class."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(["client", "split", *range(counts.train.shape[1])])
    splits = counts.splits()
    for client in range(len(counts.train)):
        for split, count_KC in splits.items():
            writer.writerow([client, split, *count_KC[client].tolist()])
    atomic.write(path, text.getvalue().encode())


def read_csv(path: str | os.PathLike) -> Counts:
    """Reads counts that `write_csv` wrote."""
    try:
        rows = list(csv.reader(io.StringIO(atomic.read(path).decode())))[1:]
        names = dict.fromkeys(("train", "test", *(r[1] for r in rows)))
        split = {name: [r[2:] for r in rows if r[1] == name] for name in names}
        counts = Counts(**{name: np.array(part, int) for name, part in split.items()})
    except (OSError, IndexError, TypeError, ValueError, OverflowError, csv.Error) as e:
        raise UserError(
            f"{path} is no partition of a run ({e}): give the work directory of a run."
        ) from e
    splits, shape = counts.splits().values(), counts.train.shape
    if {c.shape for c in splits} != {shape} or len(shape) != 2 or 0 in shape:
        raise UserError(
            f"{path} is no partition of a run: it does not count all splits of every "
            "client."
        )
    if min(c.min() for c in splits) < 0 or max(c.max() for c in splits) > MAX_INT:
        raise UserError(
            f"{path} is no partition of a run: counts are from 0 to {MAX_INT}."
        )
    return counts


def majority_share(
    counts: Counts, ids: np.ndarray | slice = slice(None)
) -> MajorityShare:
    """Returns the accuracy of always predicting the majority class of each client.

    The first of equally frequent classes counts as the majority class. A client without
    training examples predicts the majority class of all clients.

    Args:
      ids: Clients whose accuracies count; default: all.
    """
    trains_K1 = counts.train.any(axis=1, keepdims=True)
    train_KC = np.where(trains_K1, counts.train, counts.train.sum(0))
    majority_K1 = np.argmax(train_KC, axis=1, keepdims=True)
    correct_K = np.take_along_axis(counts.test, majority_K1, axis=1)[ids, 0]
    size_K = counts.test[ids].sum(axis=1)
    accuracy_K = correct_K / np.maximum(size_K, 1)
    total = int(size_K.sum())
    pooled = float(correct_K.sum() / max(total, 1))
    return MajorityShare(pooled, float(accuracy_K.mean()), total)


def work(
    sizes: Sequence[int],
    cohorts: Sequence[Sequence[int]],
    *,
    batch_size: int,
    epochs: int,
    per_epoch: Callable[[np.ndarray, int], np.ndarray],
) -> RoundWork:
    """Counts steps, dropped examples and padding waste per round.

    Args:
      sizes: [K] training examples per client.
      cohorts: the client ids of each cohort.
      batch_size, epochs: of local training.
      per_epoch: sizes [K], batch_size -> steps [K]; `batches.at_least_one_batch` or
        `batches.whole_batches_only`.
    """
    size_K = np.asarray(sizes)
    batch_K = np.asarray(per_epoch(size_K, batch_size))
    dropped_K = np.maximum(size_K - batch_K * batch_size, 0)
    step_K = batch_K * epochs
    useful = sum(step_K[list(ids)].sum() for ids in cohorts)
    padded = sum(step_K[list(ids)].max() * len(ids) for ids in cohorts)
    total = (padded - useful) / max(padded, 1)  # 0 where nobody trains
    return RoundWork(step_K, dropped_K, float(total))


def num_unseen(counts: Counts) -> int:
    """Counts test examples of classes that their client does not train on."""
    return int(counts.test[counts.train == 0].sum())


def skew(count_KC: np.ndarray) -> Skew:
    """Measures the label skew of clients from counts [K, C]; no client is empty."""
    count_KC = np.asarray(count_KC, float)
    all_C = count_KC.sum(axis=0) / count_KC.sum()
    share_KC = count_KC / count_KC.sum(axis=1, keepdims=True)
    variation_K = np.abs(share_KC - all_C).sum(axis=1) / 2
    js_K = distance.jensenshannon(share_KC, all_C[None], base=2, axis=1)
    return Skew(variation_K, np.nan_to_num(js_K))  # rounding can give a root of -1e-17


def table(
    counts: Counts,
    work: RoundWork,
    max_clients: int = MOST_CLIENTS,
    names: Sequence[str] = (),
) -> rich.table.Table:
    """Makes a table of sizes and class counts, one line per client.

    Args:
      counts, work: of every client.
      max_clients: largest number of clients shown.
      names: of the classes; () shows their numbers.
    """
    caption = _caption(counts, work, max_clients)
    view = rich.table.Table(title="Partition", caption=caption)
    splits = counts.splits()
    for column in ("client", *splits, "classes", "steps"):
        view.add_column(column, justify="right")
    view.add_column("class:training examples", overflow="fold")
    for client, train_C in enumerate(counts.train[:max_clients]):
        sizes = (count_KC[client].sum() for count_KC in splits.values())
        row = [client, *sizes, (train_C > 0).sum(), work.steps[client]]
        view.add_row(*map(str, row), format_class_counts(train_C, names))
    return view


def format_class_counts(count_C: np.ndarray, names: Sequence[str] = ()) -> str:
    """Formats class counts as "class:count ...", in the order of the classes.

    Of many classes, only the most frequent are shown, such as
    "17:58 108:48 112:133 116:97 125:99 +63 more".
    """
    present = np.flatnonzero(count_C)
    shown = present
    if len(present) > MANY_CLASSES:
        shown = np.sort(present[np.argsort(-count_C[present], kind="stable")[:SHOWN]])
    labels = [escape(names[c]) if names else c for c in shown.tolist()]
    pairs = zip(labels, count_C[shown], strict=True)
    text = (", " if names else " ").join(f"{c}:{count}" for c, count in pairs)
    return text + f" +{len(present) - len(shown)} more" * (len(shown) < len(present))


def _caption(counts, work, max_clients):
    clients, classes = counts.train.shape
    pairs = (counts.train > 0).sum()
    validation_KC = counts.validation
    held = "" if validation_KC is None else f", {validation_KC.sum()} validation"
    parts = [
        f"{clients} clients hold {pairs} client-class pairs of {classes} classes",
        f"{counts.train.sum()} training{held} and {counts.test.sum()} test examples",
        f"{num_unseen(counts)} test examples of classes unseen in training",
    ]
    if clients > max_clients:
        parts.append(f"clients from {max_clients} on not shown")
    if (empty := (counts.train + counts.test).sum(axis=0) == 0).any():
        parts.append(f"{empty.sum()} classes without examples")
    parts.append(
        f"{work.steps.sum()} steps of all clients, {work.dropped.sum()} examples "
        f"outside whole batches, padding would waste {work.total_waste:.0%}"
    )
    return "; ".join(parts) + "."
