"""Dividing a data set: training and test parts, seeds, what cannot be divided."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.every import every
from support.labels import labels_only
from support.refusal import refused

from jaxproto.data.partitions import schemes


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any),
    st.integers(1, 6),
    st.sampled_from([0.5, 0.75, 0.9]),
    st.integers(0, 2**32 - 1),
)
def test_train_and_test_share_out_a_client_by_train_share(sizes, clients, share, seed):
    assume(10 * clients <= sum(sizes))
    dataset = labels_only(sizes)
    scheme = schemes.dirichlet(0.5, min_size=10)
    train, test = schemes.divide(
        dataset, scheme, clients=clients, train_share=share, seed=seed
    )
    everyone = np.sort(np.concatenate([*train, *test]))
    np.testing.assert_array_equal(everyone, np.arange(len(dataset.y)))
    for a, b in zip(train, test, strict=True):
        assert a.dtype == b.dtype == np.int32
        assert len(a) == int(share * (len(a) + len(b)))


@every([(schemes.iid(),), (schemes.dirichlet(0.5),), (schemes.pathological(2),)])
def test_the_same_seed_gives_the_same_partition_and_another_a_different_one(scheme):
    one, again, other = (
        np.concatenate(schemes.divide(dataset, scheme, clients=4, seed=seed).train)
        for dataset in [labels_only([60] * 4)]
        for seed in (1, 1, 2)
    )
    assert one.tolist() == again.tolist() != other.tolist()


def test_not_pooled_trains_on_the_official_part_and_tests_all_on_the_whole_other():
    """docs/decisions.md#official-test."""
    dataset = labels_only([20, 20, 20], test=15)
    divided = schemes.divide(dataset, schemes.iid(), clients=5, pooled=False)
    assert sorted(np.concatenate(divided.train)) == list(range(45))
    assert all(rows.tolist() == list(range(45, 60)) for rows in divided.test)
    blocks = schemes.divide(dataset, schemes.pathological(3), clients=1, pooled=False)
    assert blocks.train[0].tolist() != sorted(blocks.train[0])  # batches mix classes


IID = schemes.iid()
IMPOSSIBLE = [  # of two classes of five examples
    (IID, 11, "need 11 examples, but there are 10. Use at most 10 cli"),
    (IID, 0, "clients is 0. Give an integer of at least 1."),
    (IID, 10, "client 0 gets 0 training and 1 test examples at train_"),
    (IID, 10, "0.75 (and so do 9 more clients). Raise min_size (pfllib"),
    (schemes.dirichlet(1.0, min_size=4), 3, "12 examples, but there are 10. Use at"),
    (schemes.dirichlet(1.0, min_size=4), 3, "most 2 clients or at most 3 ea"),
    (schemes.dirichlet(1.0, min_size=0), 3, "min_size is 0. Give an integer of"),
    (schemes.pathological(3), 2, "is 3, but only 2 classes have examples. Use at"),
    (schemes.pathological(1), 1, "but 2 have examples. Use at least 2 clients or"),
    (schemes.pathological(1), 1, "or classes_per_client of at l"),
    (schemes.pathological(2), 6, "class 0 has 5 examples for 6 clients. Use few"),
    (schemes.pfllib_dirichlet(1.0), 11, "need 11 examples, but there are 10. Us"),
    (schemes.pfllib_pathological(3), 2, "is 3, but only 2 classes have examples"),
    (schemes.pfllib_pathological(2), 6, "class 0 has 5 examples for 6 clients, t"),
]


@every(IMPOSSIBLE)
def test_an_impossible_partition_is_refused_with_both_numbers(scheme, clients, message):
    with refused(message):
        schemes.divide(labels_only([5, 5]), scheme, clients=clients)


@every([0, -1.0, float("nan"), float("inf"), 1e9])
def test_alpha_must_be_positive_and_finite(alpha):
    for make in (schemes.dirichlet, schemes.pfllib_dirichlet):
        with refused(f"alpha is {alpha}, but must be above 0 and at most 1e6."):
            make(alpha)


@every(
    [
        ({"train_share": 1.0}, "train_share is 1.0. Give a number between 0 and 1"),
        ({"seed": -1}, "the data seed is -1. Use one from 0 to 2**32 - 1."),
        ({"pooled": False}, "'toy' has no official test part (all 10 examples are for"),
    ]
)
def test_arguments_of_divide_that_cannot_work_are_named(arguments, message):
    with refused(message):
        schemes.divide(labels_only([5, 5]), IID, clients=2, **arguments)
