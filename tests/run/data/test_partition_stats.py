"""Statistics of a partition: work, tables, partition.csv."""

import io

import numpy as np
import rich.console

from jaxproto.data import partition_stats
from jaxproto.data.partition_stats import Counts, MajorityShare


def wrap(size_K, batch_size):  # batches.wrap in numpy: one step at least
    return np.maximum(size_K // batch_size, 1)


def test_work_counts_steps_dropped_examples_and_padding_by_hand():
    """Also of a client below one batch, which never trains and drops all examples."""
    options = {"batch_size": 32, "epochs": 2, "per_epoch": wrap}
    work = partition_stats.work([100, 64, 33, 5], [[0, 2], [1, 3]], **options)
    assert work.steps.tolist() == [6, 4, 2, 2] and work.dropped.tolist() == [4, 0, 1, 0]
    assert work.total_waste == 6 / 20
    options |= {"epochs": 1, "per_epoch": np.floor_divide}
    work = partition_stats.work([40, 5], [[0], [1]], **options)
    assert work.steps.tolist() == [1, 0] and work.dropped.tolist() == [8, 5]
    assert work.total_waste == 0.0


def test_the_share_of_the_commonest_class_by_hand():
    """The commonest class is 1 for the first client, and 0 for the second."""
    train, test = np.array([[1, 5, 0], [4, 0, 4]]), np.array([[1, 3, 0], [1, 3, 0]])
    share = partition_stats.majority_share(Counts(train, test))
    assert share == MajorityShare(pooled=0.5, client_mean=0.5, examples=8)
    test[0] = [0, 30, 0]
    share = partition_stats.majority_share(Counts(train, test))
    assert share == MajorityShare(31 / 34, (1 + 0.25) / 2, 34)


def test_the_table_shows_sizes_classes_counts_and_waste_and_stays_short():
    counts = Counts(np.array([[3, 0, 9], [0, 2, 0]]), np.array([[1, 1, 0]] * 2))
    options = {"batch_size": 4, "epochs": 1, "per_epoch": wrap}
    work = partition_stats.work([12, 2], [[0, 1]], **options)
    console = rich.console.Console(file=io.StringIO(), width=120)
    console.print(partition_stats.table(counts, work))
    text = " ".join(console.file.getvalue().split())
    assert "0 │ 12 │ 2 │ 2 │ 3 │ 0:3 2:9" in text
    assert "1 │ 2 │ 2 │ 1 │ 1 │ 1:2" in text
    assert "2 test examples of classes unseen in training" in text
    assert "padding would waste 33%" in text
