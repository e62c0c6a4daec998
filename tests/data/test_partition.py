"""Who gets which examples: exact legacy streams, laws of the schemes, messages."""

import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.labels import labels_only, sizes_of
from support.refusal import refused

from jaxproto.data import describe
from jaxproto.data.partitions import schemes
from jaxproto.data.partitions.scheme import top_up
from jaxproto.errors import UserError

fast = settings(max_examples=60, deadline=None, derandomize=True)


# ------------------------------------------------------------------ laws of the schemes

class_sizes = st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any)
seeds = st.integers(0, 2**32 - 1)


def assigned(scheme, sizes, clients, seed):
    """Labels in a shuffled order, and the hands; every example is in exactly one."""
    y = np.random.default_rng(0).permutation(labels_only(sizes).y)
    client_rows = scheme.assign(y, len(sizes), clients, scheme.make_rng(seed))
    assert len(client_rows) == clients
    np.testing.assert_array_equal(
        np.sort(np.concatenate(client_rows)), np.arange(len(y))
    )
    return y, client_rows


@fast
@given(class_sizes, st.integers(1, 12), seeds)
def test_iid_uses_every_example_once_in_sizes_that_differ_by_at_most_one(
    sizes, clients, seed
):
    assume(clients <= sum(sizes))
    _, client_rows = assigned(schemes.iid(), sizes, clients, seed)
    assert max(sizes_of(client_rows)) - min(sizes_of(client_rows)) <= 1


@fast
@given(class_sizes, st.integers(1, 12), st.integers(1, 5), st.floats(-3, 3), seeds)
def test_dirichlet_uses_every_example_once_and_honours_min_size(
    sizes, clients, min_size, log_alpha, seed
):
    assume(clients * min_size <= sum(sizes))
    scheme = schemes.dirichlet(10**log_alpha, min_size=min_size, max_tries=3)
    _, client_rows = assigned(scheme, sizes, clients, seed)
    assert min(sizes_of(client_rows)) >= min_size


@fast
@given(st.lists(st.integers(12, 40), min_size=1, max_size=8), st.data(), seeds)
def test_pathological_gives_each_client_its_number_of_classes(sizes, data, seed):
    classes = data.draw(st.integers(1, len(sizes)))
    clients = data.draw(st.integers(-(-len(sizes) // classes), 12))
    scheme = schemes.pathological(classes)
    y, client_rows = assigned(scheme, sizes, clients, seed)
    held_KC = np.stack(
        [np.bincount(y[rows], minlength=len(sizes)) for rows in client_rows]
    )
    assert ((held_KC > 0).sum(axis=1) == classes).all()
    assert np.ptp((held_KC > 0).sum(axis=0)) <= 1  # clients per class
    for count_K in held_KC.T:
        assert np.ptp(count_K[count_K > 0]) <= 1  # examples per owner


@fast
@given(class_sizes, st.integers(1, 12), st.floats(-3, 3), seeds)
def test_pfllib_dirichlet_uses_every_example_once_or_says_why_not(
    sizes, clients, log_alpha, seed
):
    assume(clients <= sum(sizes))
    scheme = schemes.pfllib_dirichlet(10**log_alpha, max_tries=20)
    try:
        _, client_rows = assigned(scheme, sizes, clients, seed)
    except UserError as error:
        assert "20 draws gave none" in str(error)
    else:
        assert min(sizes_of(client_rows)) >= 1


@fast
@given(class_sizes, st.integers(1, 6), st.sampled_from([0.5, 0.75, 0.9]), seeds)
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


@pytest.mark.parametrize("alpha", [1e-3, 1e-1, 1e3])
def test_a_thousand_clients_are_served_in_seconds(alpha):
    dataset = labels_only([2_000] * 10)
    start = time.perf_counter()
    scheme = schemes.dirichlet(alpha, min_size=15)
    divided = schemes.divide(dataset, scheme, clients=1_000)
    assert time.perf_counter() - start < 10
    assert min(map(sum, zip(*map(sizes_of, divided), strict=True))) >= 15


def test_small_alpha_is_more_uneven_than_large_alpha():
    dataset = labels_only([500] * 10)
    pairs = [
        (describe.counts(dataset, divided).train > 0).sum()
        for alpha in (0.01, 0.1, 1.0, 100.0)
        for divided in [schemes.divide(dataset, schemes.dirichlet(alpha), clients=10)]
    ]
    assert pairs == sorted(pairs) and pairs[0] < 40 and pairs[-1] == 100


def test_topping_up_moves_the_richest_clients_commonest_class_and_nothing_more():
    given_KC = np.array([[0, 0], [7, 2], [3, 3]])
    assert top_up(given_KC, 2).tolist() == [[2, 0], [5, 2], [3, 3]]
    assert top_up(given_KC, 0).tolist() == given_KC.tolist()


@pytest.mark.parametrize("name", ["iid", "dirichlet", "pathological"])
def test_the_same_seed_gives_the_same_partition_and_another_a_different_one(name):
    dataset = labels_only([60] * 4)
    arguments = {"dirichlet": [0.5], "pathological": [2]}.get(name, [])
    scheme = schemes.PARTITIONS[name](*arguments)
    one, again, other = (
        np.concatenate(schemes.divide(dataset, scheme, clients=4, seed=s).train)
        for s in (1, 1, 2)
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


# ------------------------------------------------------------------ messages

SMALL = labels_only([5, 5])


@pytest.mark.parametrize(
    ("scheme", "clients", "message"),
    [
        (schemes.iid(), 11, "need 11 examples, but there are 10. Use at most 10 cli"),
        (schemes.iid(), 0, "clients is 0. Give an integer of at least 1."),
        (
            schemes.dirichlet(1.0, min_size=4),
            3,
            "need 12 examples, but there are 10. Use at most 2 clients or at most 3 ea",
        ),
        (schemes.dirichlet(1.0, min_size=0), 3, "min_size is 0. Give an integer of"),
        (
            schemes.pathological(3),
            2,
            "is 3, but only 2 classes have examples. Use at",
        ),
        (
            schemes.pathological(1),
            1,
            "but 2 have examples. Use at least 2 clients or classes_per_client of at l",
        ),
        (schemes.pathological(2), 6, "class 0 has 5 examples for 6 clients. Use few"),
        (schemes.pfllib_dirichlet(1.0), 11, "need 11 examples, but there are 10. Us"),
        (schemes.pfllib_pathological(3), 2, "is 3, but only 2 classes have examples"),
        (
            schemes.pfllib_pathological(2),
            6,
            "class 0 has 5 examples for 6 clients, t",
        ),
        (schemes.iid(), 10, "client 0 gets 0 training and 1 test examples at train_"),
        (
            schemes.iid(),
            10,
            "0.75 (and so do 9 more clients). Raise min_size (pfllib",
        ),
    ],
)
def test_an_impossible_partition_is_refused_with_both_numbers(scheme, clients, message):
    with refused(message):
        schemes.divide(SMALL, scheme, clients=clients)


@pytest.mark.parametrize("alpha", [0, -1.0, float("nan"), float("inf"), 1e9])
def test_alpha_must_be_positive_and_finite(alpha):
    for make in (schemes.dirichlet, schemes.pfllib_dirichlet):
        with refused(f"alpha is {alpha}, but must be above 0 and at most 1e6."):
            make(alpha)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train_share": 1.0}, "train_share is 1.0. Give a number between 0 and 1"),
        ({"seed": -1}, "the data seed is -1. Use one from 0 to 2**32 - 1."),
        ({"pooled": False}, "'toy' has no official test part (all 10 examples are for"),
    ],
)
def test_arguments_of_divide_that_cannot_work_are_named(arguments, message):
    with refused(message):
        schemes.divide(SMALL, schemes.iid(), clients=2, **arguments)
