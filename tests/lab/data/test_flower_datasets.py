"""Partitioners of Flower Datasets, by the real library or by one of its form."""

import sys
import types

import numpy as np
import pytest
from support.labels import count, shuffled
from support.refusal import refused

from jaxproto.data.partitions.partition import (
    partition_dataset,
)
from jaxproto.lab.data.flower_datasets import flower_scheme


class EveryNthPartitioner:
    """Deals rows of each class by turns, `skipped` clients left out."""

    def __init__(self, num_partitions, partition_by, skipped=0, parts=None, seed=42):
        assert partition_by == "label" and isinstance(seed, int) and seed != 42
        self.num_partitions = len(parts) if parts else num_partitions - skipped

    def load_partition(self, i):
        order = np.argsort(self.dataset["label"], kind="stable")
        return {"index": self.dataset["index"][order][i :: self.num_partitions]}


@pytest.fixture
def library(monkeypatch):
    """Modules of the form of Flower Datasets and Hugging Face's Datasets."""
    made = types.SimpleNamespace(EveryNthPartitioner=EveryNthPartitioner)
    parts = types.SimpleNamespace(partitioner=made)
    monkeypatch.setitem(sys.modules, "flwr_datasets", parts)
    rows = types.SimpleNamespace(Dataset=lambda table, fingerprint: table)
    monkeypatch.setitem(sys.modules, "datasets", rows)
    monkeypatch.setitem(sys.modules, "pyarrow", types.SimpleNamespace(table=dict))


def divide(text, clients=3):
    dataset = shuffled([9, 12])
    divided = partition_dataset(dataset, flower_scheme(text), clients=clients)
    pairs = map(np.concatenate, zip(divided.train, divided.test, strict=True))
    return count(dataset.y, [*pairs])


def test_a_partitioner_divides_labels_and_gets_the_number_of_clients(library):
    assert divide("EveryNthPartitioner").tolist() == [[3, 4]] * 3
    assert len(divide("EveryNthPartitioner,parts=[4,5,6]")) == 3


BAD = [
    ("EveryNthPartitoner", "partitioner 'EveryNthPartitoner'. Did you mean 'EveryN"),
    ("EveryNthPartitioner,skipped", "argument 'skipped' has no value. Write it as key"),
    ("EveryNthPartitioner,alfa=1", "alfa=1 fails: TypeError"),
    ("EveryNthPartitioner,skipped=1", "makes 2 partitions, but data.clients is 3. Set"),
]


def test_bad_partitioners_and_a_missing_library_are_named(library, monkeypatch):
    for text, message in BAD:
        with refused(message):
            divide(text)
    monkeypatch.setitem(sys.modules, "flwr_datasets", None)
    with refused("which is missing. Install it: pip install 'jaxproto[flower-data"):
        divide("IidPartitioner")


REAL = [
    *("IidPartitioner", "DirichletPartitioner,alpha=50,min_partition_size=4"),
    *("PathologicalPartitioner,num_classes_per_partition=2", "LinearPartitioner"),
    "ShardPartitioner,num_shards_per_partition=2,shard_size=3",
    "SizePartitioner,partition_sizes=[6,7,8]",
]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # of that library
@pytest.mark.parametrize("text", REAL)
def test_real_partitioners_divide_rows(text):
    pytest.importorskip("flwr_datasets")
    held_KC = divide(text)
    assert held_KC.shape == (3, 2) and (held_KC.sum(1) > 1).all()
    assert (held_KC.sum(0) <= [9, 12]).all() and held_KC.sum() >= 18
