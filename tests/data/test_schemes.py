"""Laws of the schemes: who gets what, what makes no difference, what is refused."""

import time

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from support.every import every
from support.labels import BY_LABEL, SCHEMES, count, labels_only, shuffled
from support.refusal import refused

from jaxproto.data import partition_stats
from jaxproto.data.partitions import public_examples, registry
from jaxproto.data.partitions.label_skew import ensure_min_size
from jaxproto.errors import UserError

fast = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
class_sizes = st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any)


def hands_of(scheme, dataset, clients, seed=1):
    """Rows of each client; every example is in exactly one."""
    seen, number = scheme.looks_at(dataset)
    client_rows = scheme.assign(seen, number, clients, scheme.make_rng(seed))
    assert len(client_rows) == clients
    everyone = np.sort(np.concatenate(client_rows))
    np.testing.assert_array_equal(everyone, np.arange(len(dataset.y)))
    return client_rows


@settings(fast, max_examples=120)
@given(
    st.sampled_from(["iid", "dirichlet", "quantity", "pfllib"]),
    class_sizes,
    st.integers(1, 12),
    st.integers(1, 5),
    st.floats(-3, 3),
    seeds,
)
def test_every_example_is_used_once(name, sizes, clients, min_size, log_alpha, seed):
    options = {"min_size": min_size, "max_tries": 3}
    if name in ("iid", "pfllib"):
        min_size, options = 1, {"max_tries": 20} if name == "pfllib" else {}
    assume(clients * min_size <= sum(sizes))
    alpha = () if name == "iid" else (10**log_alpha,)
    scheme = registry.PARTITIONS[name](*alpha, **options)
    try:
        size_K = [*map(len, hands_of(scheme, shuffled(sizes), clients, seed))]
    except UserError as error:
        assert name == "pfllib" and "20 draws gave none" in str(error)
        return
    assert min(size_K) >= min_size
    assert name != "iid" or max(size_K) - min(size_K) <= 1


@fast
@given(st.lists(st.integers(12, 40), min_size=1, max_size=8), st.data(), seeds)
def test_pathological_gives_each_client_its_number_of_classes(sizes, data, seed):
    classes = data.draw(st.integers(1, len(sizes)))
    clients = data.draw(st.integers(-(-len(sizes) // classes), 12))
    dataset = shuffled(sizes)
    client_rows = hands_of(registry.pathological(classes), dataset, clients, seed)
    held_KC = count(dataset.y, client_rows)
    assert ((held_KC > 0).sum(axis=1) == classes).all()
    assert np.ptp((held_KC > 0).sum(axis=0)) <= 1  # clients per class
    for count_K in held_KC.T:
        assert np.ptp(count_K[count_K > 0]) <= 1  # examples per owner


@fast
@given(st.integers(1, 30), st.integers(1, 30), seeds)
def test_feature_deals_whole_sources_or_shares_one(sources, clients, seed):
    dataset = shuffled([200], sources=sources)
    client_rows = hands_of(registry.by_domain(), dataset, clients, seed)
    count_KS = count(dataset.domain, client_rows)
    if sources >= clients:
        assert ((count_KS > 0).sum(axis=0) == 1).all()
        assert np.ptp((count_KS > 0).sum(axis=1)) <= 1
    else:
        assert ((count_KS > 0).sum(axis=1) == 1).all()
        assert np.ptp((count_KS > 0).sum(axis=0)) <= 1
        assert all(np.ptp(column[column > 0]) <= 1 for column in count_KS.T)


def test_feature_with_too_small_sources_is_refused():
    """Without sources: `support/bad_rows.py`."""
    small = shuffled([9])._replace(domain=np.array([0] * 8 + [1]))
    with refused("source 1 has 1 examples for 2 clients. Use fewer clients, or leave"):
        registry.partition_dataset(small, registry.by_domain(), clients=4)


def test_quantity_makes_sizes_uneven_and_leaves_labels_alike():
    dataset = shuffled([2_000] * 10)
    spread = []
    for alpha in (0.2, 1.0, 100.0):
        scheme = registry.quantity_skew(alpha, min_size=400)
        client_rows = hands_of(scheme, dataset, 10)
        assert partition_stats.skew(count(dataset.y, client_rows)).variation.max() < 0.1
        spread.append(max(map(len, client_rows)) / min(map(len, client_rows)))
    assert spread[0] > 10 > spread[1] > 2 > spread[2]


def test_quantity_shares_are_those_of_the_dirichlet_distribution():
    """Li et al. 4.3. A share of 10 has mean 1/10 and variance 0.09 / (10 alpha + 1)."""
    y = np.zeros(10_000, int)
    scheme = registry.quantity_skew(0.5, min_size=1, max_tries=1)
    rng = np.random.default_rng(0)
    shares = [len(r) for _ in range(400) for r in scheme.assign(y, 1, 10, rng)]
    assert np.mean(shares) == 1_000
    assert np.var(np.array(shares) / 1e4) == pytest.approx(0.09 / 6, rel=0.1)


@fast
@given(class_sizes, st.integers(1, 12), st.integers(1, 3), seeds)
def test_shards_are_equal_pieces_of_the_examples_in_the_order_of_classes(
    sizes, clients, each, seed
):
    """FedAvg 3: a client of two shards has few classes."""
    assume(clients * each <= sum(sizes))
    dataset = shuffled(sizes)
    client_rows = hands_of(registry.shards(each), dataset, clients, seed)
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
    scheme = registry.extended_dirichlet(classes, 100.0, min_size=1)
    held_KC = count(dataset.y, hands_of(scheme, dataset, clients, seed))
    assert ((held_KC > 0).sum(axis=1) <= classes).all()


def test_extended_dirichlet_deals_classes_if_no_draw_covers_them():
    """Ten clients draw one of ten classes each: 10! / 10^10 of the draws cover all."""
    scheme = registry.extended_dirichlet(1, 1.0, max_tries=3)
    held_KC = count(shuffled([9] * 10).y, hands_of(scheme, shuffled([9] * 10), 10))
    assert sorted((held_KC > 0).argmax(1).tolist()) == list(range(10))
    uneven = registry.extended_dirichlet(10, 0.01, min_size=4, max_tries=1)
    assert min(map(len, hands_of(uneven, shuffled([9] * 10), 10))) >= 4


def test_logarithms_of_lognormal_sizes_have_the_standard_deviation():
    y, rng = np.zeros(100_000, int), np.random.default_rng(0)
    for sigma in (0.0, 1.0):
        scheme = registry.lognormal_sizes(sigma, min_size=1)
        size_K = np.array([len(rows) for rows in scheme.assign(y, 1, 500, rng)])
        assert np.std(np.log(size_K)) == pytest.approx(sigma, abs=0.05)


def test_topping_up_moves_the_richest_clients_commonest_class_and_nothing_more():
    given_KC = np.array([[0, 0], [7, 2], [3, 3]])
    assert ensure_min_size(given_KC, 2).tolist() == [[2, 0], [5, 2], [3, 3]]
    assert ensure_min_size(given_KC, 0).tolist() == given_KC.tolist()


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    st.sampled_from(["dirichlet", "quantity", "pfllib"]),
    st.floats(-3, 3),
    st.integers(1, 1_000),
    seeds,
)
@example("dirichlet", -3.0, 1_000, 1)
@example("dirichlet", -1.0, 1_000, 1)
@example("dirichlet", 3.0, 1_000, 1)
def test_any_alpha_and_a_thousand_clients_end_soon(name, log_alpha, clients, seed):
    least = 1 if name == "pfllib" else 15
    options = {} if name == "pfllib" else {"min_size": least}
    scheme = registry.PARTITIONS[name](10**log_alpha, **options)
    start = time.perf_counter()
    try:
        client_rows = hands_of(scheme, shuffled([2_000] * 10), clients, seed)
        assert min(map(len, client_rows)) >= least
    except UserError as error:
        assert name == "pfllib" and "1000 draws gave none" in str(error)
    assert time.perf_counter() - start < 10


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


@fast
@given(st.sampled_from([*BY_LABEL, "feature"]), st.permutations(range(48)), seeds)
def test_the_order_of_examples_changes_no_counts(name, order, seed):
    ids, counts, scheme = np.arange(48) % 4, [], SCHEMES[name]
    if name == "feature":
        ids = np.arange(48) % 7
    for seen in (ids, ids[order]):
        client_rows = scheme.assign(seen, ids.max() + 1, 4, scheme.make_rng(seed))
        counts.append(count(seen, client_rows))
    np.testing.assert_array_equal(*counts)


def test_partitions_follow_from_the_seed_and_training_rows_are_shuffled():
    for scheme in (registry.iid(), registry.dirichlet(0.5), registry.pathological(2)):
        both = labels_only([60] * 4), scheme
        seeds = ({"clients": 4, "seed": seed} for seed in (1, 1, 2))
        parts = (registry.partition_dataset(*both, **options) for options in seeds)
        one, again, other = (np.concatenate(part.train).tolist() for part in parts)
        assert one == again != other
    official = labels_only([20, 20, 20], test=15), registry.pathological(3)
    blocks = registry.partition_dataset(*official, clients=1, pooled=False)
    assert blocks.train[0].tolist() != sorted(blocks.train[0])  # batches mix classes


IID = registry.iid()
APART = {"pooled": False}
IMPOSSIBLE = [  # of two classes of five examples
    (IID, 11, "need 11 examples, but there are 10. Use at most 10 cli"),
    (IID, 0, "clients is 0. Give an integer of at least 1."),
    (IID, 10, "client 0 gets 0 training and 1 test examples at train_"),
    (IID, 10, "0.75 (and so do 9 more clients). Raise min_size (pfllib"),
    (registry.dirichlet(1.0, min_size=4), 3, "12 examples, but there are 10. Use at"),
    (registry.dirichlet(1.0, min_size=4), 3, "most 2 clients, or min_size 3."),
    (registry.dirichlet(1.0, min_size=0), 3, "min_size is 0. Give an integer of"),
    (registry.pathological(3), 2, "is 3, but only 2 classes have examples. Use at"),
    (registry.pathological(1), 1, "but 2 have examples. Use at least 2 clients or"),
    (registry.pathological(2), 6, "class 0 has 5 examples for 6 clients. Use few"),
    (registry.pfllib_dirichlet(1.0), 11, "need 11 examples, but there are 10. Us"),
    (registry.pfllib_pathological(3), 2, "is 3, but only 2 classes have examples"),
    (registry.pfllib_pathological(2), 6, "class 0 has 5 examples for 6 clients, t"),
    (IID, 2, "train_share is 1.0. Give a number between 0 and 1", {"train_share": 1.0}),
    (IID, 2, "the data seed is -1. Use one from 0 to 2**32 - 1.", {"seed": -1}),
    (IID, 2, "'toy' has no official test part (all 10 examples are for", APART),
]


@every(IMPOSSIBLE)
def test_an_impossible_partition_is_named(scheme, clients, message, arguments=None):
    with refused(message):
        more = arguments or {}
        registry.partition_dataset(labels_only([5, 5]), scheme, clients=clients, **more)


@every([0, float("nan"), 1e9])
def test_alpha_must_be_positive_and_finite(alpha):
    for make in (registry.dirichlet, registry.pfllib_dirichlet):
        with refused(f"alpha is {alpha}, but must be above 0 and at most 1e6."):
            make(alpha)
