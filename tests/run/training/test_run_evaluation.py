"""Records of an evaluation: sums of clients by the domain of their test examples."""

import types

import numpy as np
from support.labels import shuffled

from jaxproto.data.partitions.partition import (
    make_partition,
)
from jaxproto.storage.schemas import find_record_error
from jaxproto.training.run_evaluation import correct_by_domain


def experiment(test):
    """Clients' test rows of six examples, of domain 0, 1, 0, 1, 0 and 1."""
    dataset = shuffled([3, 3], sources=2)._replace(domains=("a", "b", "c"))
    partition = make_partition([np.zeros(1, int)] * len(test), test)
    return types.SimpleNamespace(dataset=dataset, partition=partition)


def test_clients_of_a_domain_are_added_up_and_mixed_clients_have_no_domain():
    id_K, size_K = np.array([2, 0, 1]), np.array([2, 1, 1])
    right = {"head": np.array([1, 1, 0])}
    exp = experiment([[0], [1], [2, 4]])
    found = correct_by_domain(exp, id_K, right, size_K)
    wanted = {"name": ["a", "b", "c"], "test_examples": [3, 1, 0]}
    assert found == {"by_domain": wanted | {"correct_head": [2, 0, 0]}}
    assert find_record_error({"round": 1} | found) == ""
    mixed = experiment([[0], [1], [2, 5]])
    assert correct_by_domain(mixed, id_K, right, size_K) == {}
