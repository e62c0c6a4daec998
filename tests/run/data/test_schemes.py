"""Laws of the schemes: who gets what, what makes no difference, what is refused."""

import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.every import every
from support.labels import SCHEMES, count, labels_only, shuffled
from support.refusal import refused

from jaxproto.data import domains
from jaxproto.data.partitions import (
    label_skew,
    other_skews,
    partition,
    public_examples,
    registry,
)

fast = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
class_sizes = st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any)


def hands_of(scheme, dataset, clients, seed=1):
    """Rows of each client; every example is in exactly one."""
    seen, number = dataset.y, dataset.num_classes
    if scheme.by_source:
        seen, number = domains.domain_ids(dataset)
    client_rows = scheme.assign(seen, number, clients, scheme.make_rng(seed))
    assert len(client_rows) == clients
    everyone = np.sort(np.concatenate(client_rows))
    np.testing.assert_array_equal(everyone, np.arange(len(dataset.y)))
    return client_rows


@settings(fast, max_examples=80)
@given(
    st.sampled_from(["dirichlet", "quantity"]),
    class_sizes,
    st.integers(1, 12),
    st.integers(1, 5),
    st.floats(-3, 3),
    seeds,
)
def test_no_client_has_less_than_the_minimum(
    name, sizes, clients, min_size, log_alpha, seed
):
    assume(clients * min_size <= sum(sizes))
    options = {"min_size": min_size, "max_tries": 3}
    scheme = registry.PARTITIONS[name](10**log_alpha, **options)
    assert min(map(len, hands_of(scheme, shuffled(sizes), clients, seed))) >= min_size
    even = hands_of(label_skew.iid(), shuffled(sizes), clients, seed)
    assert np.ptp([*map(len, even)]) <= 1


@fast
@given(st.lists(st.integers(12, 40), min_size=1, max_size=8), st.data(), seeds)
def test_pathological_gives_each_client_its_number_of_classes(sizes, data, seed):
    classes = data.draw(st.integers(1, len(sizes)))
    clients = data.draw(st.integers(-(-len(sizes) // classes), 12))
    dataset = shuffled(sizes)
    client_rows = hands_of(label_skew.pathological(classes), dataset, clients, seed)
    held_KC = count(dataset.y, client_rows)
    assert ((held_KC > 0).sum(axis=1) == classes).all()
    assert np.ptp((held_KC > 0).sum(axis=0)) <= 1  # clients per class
    for count_K in held_KC.T:
        assert np.ptp(count_K[count_K > 0]) <= 1  # examples per owner


@fast
@given(st.integers(1, 30), st.integers(1, 30), seeds)
def test_feature_deals_whole_sources_or_shares_one(sources, clients, seed):
    dataset = shuffled([200], sources=sources)
    client_rows = hands_of(other_skews.by_domain(), dataset, clients, seed)
    count_KS = count(dataset.domain, client_rows)
    if sources >= clients:
        assert ((count_KS > 0).sum(axis=0) == 1).all()
        assert np.ptp((count_KS > 0).sum(axis=1)) <= 1
    else:
        assert ((count_KS > 0).sum(axis=1) == 1).all()
        assert np.ptp((count_KS > 0).sum(axis=0)) <= 1
        assert all(np.ptp(column[column > 0]) <= 1 for column in count_KS.T)


def test_quantity_shares_are_dirichlet_and_labels_alike():
    """Li et al. 4.3. A share of 10 has mean 1/10 and variance 0.09 / (10 alpha + 1)."""
    y = np.repeat([0, 1], 5_000)
    scheme = other_skews.quantity_skew(0.5, min_size=1, max_tries=1)
    rng = np.random.default_rng(0)
    hands = [rows for _ in range(400) for rows in scheme.assign(y, 2, 10, rng)]
    size = np.array([*map(len, hands)])
    assert size.mean() == 1_000
    assert np.var(size / 1e4) == pytest.approx(0.09 / 6, rel=0.1)
    assert all(abs(y[r].mean() - 0.5) < 0.25 for r in hands if len(r) > 100)


@fast
@given(class_sizes, st.integers(1, 12), st.integers(1, 3), seeds)
def test_shards_are_equal_pieces_of_the_examples_in_the_order_of_classes(
    sizes, clients, each, seed
):
    """FedAvg 3: a client of two shards has few classes."""
    assume(clients * each <= sum(sizes))
    dataset = shuffled(sizes)
    client_rows = hands_of(label_skew.shards(each), dataset, clients, seed)
    size_K = [*map(len, client_rows)]
    assert max(size_K) - min(size_K) <= each
    whole = [np.unique(dataset.y[rows]).size for rows in client_rows]
    least = len(dataset.y) // (clients * each)
    smallest = min(size for size in sizes if size)
    assert smallest < least + 1 or max(whole) <= 2 * each


@fast
@given(st.lists(st.integers(30, 60), min_size=1, max_size=8), st.data(), seeds)
def test_extended_dirichlet_draws_classes_and_divides_each(sizes, data, seed):
    """Every class has a client, no client a class that it did not draw."""
    classes = data.draw(st.integers(1, len(sizes)))
    clients = data.draw(st.integers(-(-len(sizes) // classes), 12))
    dataset = shuffled(sizes)
    scheme = label_skew.extended_dirichlet(classes, 100.0, min_size=1)
    held_KC = count(dataset.y, hands_of(scheme, dataset, clients, seed))
    assert ((held_KC > 0).sum(axis=1) <= classes).all()


def test_extended_dirichlet_deals_classes_if_no_draw_covers_them():
    """Ten clients draw one of ten classes each: 10! / 10^10 of the draws cover all."""
    scheme = label_skew.extended_dirichlet(1, 1.0, max_tries=3)
    held_KC = count(shuffled([9] * 10).y, hands_of(scheme, shuffled([9] * 10), 10))
    assert sorted((held_KC > 0).argmax(1).tolist()) == list(range(10))
    uneven = label_skew.extended_dirichlet(10, 0.01, min_size=4, max_tries=1)
    assert min(map(len, hands_of(uneven, shuffled([9] * 10), 10))) >= 4


def test_logarithms_of_lognormal_sizes_have_the_standard_deviation():
    y, rng = np.zeros(100_000, int), np.random.default_rng(0)
    for sigma in (0.0, 1.0):
        scheme = other_skews.lognormal_sizes(sigma, min_size=1)
        size_K = np.array([len(rows) for rows in scheme.assign(y, 1, 500, rng)])
        assert np.std(np.log(size_K)) == pytest.approx(sigma, abs=0.05)


@every(SCHEMES)
def test_every_scheme_divides_what_is_neither_public_nor_kept_for_the_test(name):
    """docs/decisions.md#official-test. Clients lack nothing but public examples.

    Methods with and without are compared on one division (RefProtoFL). Examples of
    another set are nobody's.
    """
    whole = shuffled([100] * 4, test=80, sources=12)
    both = public_examples.append_public(whole, shuffled([5] * 4))
    for pooled in (True, False):
        some = {"share": 0.1, "classes": 0.5, "seed": 1}
        dataset = public_examples.make_some_public(whole, pooled=pooled, **some)
        alone, parts, joined = (
            public_examples.divide(data, SCHEMES[name], clients=6, pooled=pooled)
            for data in (whole, dataset, both)
        )
        mine = np.concatenate([*parts.train, *(parts.test if pooled else ())])
        rest = np.setdiff1d(np.arange(400 if pooled else 320), dataset.public)
        np.testing.assert_array_equal(np.sort(mine), rest)
        if not pooled:
            assert all(rows.tolist() == [*range(320, 400)] for rows in parts.test)
        divided = (p.train + p.test for p in (alone, parts, joined))
        for before, after, same in zip(*divided, strict=True):
            np.testing.assert_array_equal(before, same)
            kept = before[~np.isin(before, dataset.public)]
            np.testing.assert_array_equal(after, kept, strict=True)


def test_training_rows_are_shuffled_so_that_batches_mix_classes():
    official = labels_only([20, 20, 20], test=15), label_skew.pathological(3)
    blocks = partition.partition_dataset(*official, clients=1, pooled=False)
    assert blocks.train[0].tolist() != sorted(blocks.train[0])


def test_validation_rows_are_of_the_training_rows_and_nothing_else_changes():
    rows = np.random.default_rng(0).permutation(50).astype(np.int32)
    tested = [np.arange(100, 103)] * 4
    whole = partition.make_partition(np.split(rows, [1, 5, 10]), tested)
    parts = partition.hold_out(whole, 0.2, 1)
    assert [len(rows) for rows in parts.validation] == [0, 0, 1, 8]
    np.testing.assert_array_equal(parts.test, tested)
    for before, kept, held in zip(whole.train, *parts[::2], strict=True):
        assert before[~np.isin(before, held)].tolist() == kept.tolist()  # their order
        assert sorted([*kept, *held]) == sorted(before) and held.dtype == np.int32
    assert partition.hold_out(whole, 0.0, 1) == whole
    turned = whole._replace(train=tuple(rows[::-1] for rows in whole.train))
    for seed in (1, 2):  # the order of the rows is all the same
        drawn = partition.hold_out(turned, 0.2, seed).validation
        same = sorted(drawn[3]) == sorted(parts.validation[3])
        assert same == (seed == 1)


def test_any_alpha_and_a_thousand_clients_end_soon():
    dataset, start = shuffled([2_000] * 10), time.perf_counter()
    for alpha in (1e-3, 0.1, 1e3):
        scheme = label_skew.dirichlet(alpha, min_size=15)
        assert min(map(len, hands_of(scheme, dataset, 1_000))) >= 15
    assert time.perf_counter() - start < 30


def test_an_impossible_partition_is_named():
    """More: `support/bad_rows.py`."""
    even = labels_only([5, 5])._replace(domain=np.array([0] * 9 + [1]))
    uneven = labels_only([5, 9])
    many = "12 examples, but there are 10. Use at most 2 clients, or data.min_size 3."
    for scheme, dataset, clients, message in (
        (label_skew.dirichlet(1.0, min_size=4), even, 3, many),
        (
            label_skew.pathological(2),
            uneven,
            6,
            "class 0 has 5 examples for 6 clients. Use",
        ),
        (
            other_skews.by_domain(),
            even,
            4,
            "source 1 has 1 examples for 2 clients. Use",
        ),
    ):
        with refused(message):
            partition.partition_dataset(dataset, scheme, clients=clients)
