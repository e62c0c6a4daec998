"""Skews of quantity and of sources, laws that all schemes keep, published settings."""

import time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.refusal import refused

from jaxproto.data import describe, domains
from jaxproto.data.dataset import Dataset, assemble
from jaxproto.data.partitions import public, schemes
from jaxproto.data.readers import npz
from jaxproto.errors import UserError
from jaxproto.methods.fedproto import fedproto
from jaxproto.types import Spec

fast = settings(max_examples=40, deadline=None, derandomize=True)
seeds = st.integers(0, 2**32 - 1)
class_sizes = st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any)
BY_LABEL = {  # the number of each class at each client does not depend on the order
    "dirichlet": schemes.dirichlet(0.3),
    "pathological": schemes.pathological(2),
    "pfllib": schemes.pfllib_dirichlet(0.5, least_samples=3),
    "pfllib_pathological": schemes.pfllib_pathological(2),
}
BY_SIZE = {"iid": schemes.iid(), "quantity": schemes.quantity(0.5)}
SCHEMES = {**BY_LABEL, **BY_SIZE, "feature": schemes.feature()}

# Oxford Flowers-102, all 8,189 images: examples of each class.
FLOWERS = [
    *(40, 60, 40, 56, 65, 45, 40, 85, 46, 45, 87, 87, 49, 48, 49, 41, 85, 82, 49, 56),
    *(40, 59, 91, 42, 41, 41, 40, 66, 78, 85, 52, 45, 46, 40, 43, 75, 108, 56, 41, 67),
    *(127, 59, 130, 93, 40, 196, 67, 71, 49, 92, 258, 85, 93, 61, 71, 109, 67, 114),
    *(67, 109, 50, 55, 54, 52, 102, 61, 42, 54, 54, 62, 78, 96, 194, 171, 120, 107),
    *(251, 137, 41, 105, 166, 112, 131, 86, 63, 58, 63, 154, 184, 82, 76, 66, 46, 162),
    *(128, 91, 66, 82, 63, 49, 58, 48),
]


def labels_only(sizes, test=0, sources=0):
    y = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    y = np.random.default_rng(0).permutation(y)
    x = np.zeros((len(y), 1), np.float32)
    made = Dataset("toy", x, y, len(sizes), len(y) - test)
    if not sources:
        return made
    return made._replace(domain=(np.arange(len(y)) % sources).astype(np.int32))


def hands_of(scheme, dataset, clients, seed=1):
    """The hands; every example is in exactly one."""
    seen, number = scheme.looks_at(dataset)
    client_rows = scheme.assign(seen, number, clients, scheme.make_rng(seed))
    assert len(client_rows) == clients
    everyone = np.sort(np.concatenate(client_rows))
    np.testing.assert_array_equal(everyone, np.arange(len(dataset.y)))
    return client_rows


def count(ids, client_rows):
    return np.stack(
        [np.bincount(ids[rows], minlength=ids.max() + 1) for rows in client_rows]
    )


# ------------------------------------------------------------------ quantity


@fast
@given(class_sizes, st.integers(1, 12), st.integers(1, 5), st.floats(-3, 3), seeds)
def test_quantity_uses_every_example_once_and_honours_min_size(
    sizes, clients, min_size, log_alpha, seed
):
    assume(clients * min_size <= sum(sizes))
    scheme = schemes.quantity(10**log_alpha, min_size=min_size, max_tries=3)
    client_rows = hands_of(scheme, labels_only(sizes), clients, seed)
    assert min(map(len, client_rows)) >= min_size


def test_quantity_makes_sizes_uneven_and_leaves_labels_alike():
    dataset = labels_only([2_000] * 10)
    spread = []
    for alpha in (0.2, 1.0, 100.0):
        scheme = schemes.quantity(alpha, min_size=400)
        client_rows = hands_of(scheme, dataset, 10)
        assert describe.skew(count(dataset.y, client_rows)).variation.max() < 0.1
        spread.append(max(map(len, client_rows)) / min(map(len, client_rows)))
    assert spread[0] > 10 > spread[1] > 2 > spread[2]


def test_quantity_shares_are_those_of_the_dirichlet_distribution():
    """Li et al. 4.3. A share of 10 has mean 1/10 and variance 0.09 / (10 alpha + 1)."""
    y = np.zeros(10_000, int)
    scheme = schemes.quantity(0.5, min_size=1, max_tries=1)
    rng = np.random.default_rng(0)
    shares = [len(r) for _ in range(400) for r in scheme.assign(y, 1, 10, rng)]
    assert np.mean(shares) == 1_000
    assert np.var(np.array(shares) / 1e4) == pytest.approx(0.09 / 6, rel=0.1)


# ------------------------------------------------------------------ sources


@fast
@given(st.integers(1, 30), st.integers(1, 30), seeds)
def test_feature_deals_whole_sources_or_shares_one_source_among_its_clients(
    sources, clients, seed
):
    dataset = labels_only([200], sources=sources)
    client_rows = hands_of(schemes.feature(), dataset, clients, seed)
    count_KS = count(dataset.domain, client_rows)
    if sources >= clients:
        assert ((count_KS > 0).sum(axis=0) == 1).all()
        assert np.ptp((count_KS > 0).sum(axis=1)) <= 1
    else:
        assert ((count_KS > 0).sum(axis=1) == 1).all()
        assert np.ptp((count_KS > 0).sum(axis=0)) <= 1
        assert all(np.ptp(column[column > 0]) <= 1 for column in count_KS.T)


def test_feature_without_sources_or_with_too_small_ones_is_refused():
    with refused("data set 'toy' does not say where its examples come from, which par"):
        schemes.divide(labels_only([9]), schemes.feature(), clients=3)
    small = labels_only([9], sources=2)._replace(domain=np.array([0] * 8 + [1]))
    with refused("source 1 has 1 examples for 2 clients. Use fewer clients, or leave"):
        schemes.divide(small, schemes.feature(), clients=4)


def saved(tmp_path, **more):
    x = np.zeros((4, 2), np.float32)
    path = tmp_path / "a.npz"
    np.savez(path, x_train=x, y_train=np.arange(4) % 2, **more)
    return path


def test_an_npz_file_names_sources_by_texts_or_numbers(tmp_path):
    path = saved(tmp_path, domain_train=["web", "dslr", "web", "amazon"])
    assert npz.load(path).domain.tolist() == [2, 1, 2, 0]
    test = {"x_test": np.ones((1, 2), np.float32), "y_test": [1]}
    path = saved(tmp_path, **test, domain_train=[7, 7, 900, -1], domain_test=[900])
    assert npz.load(path).domain.tolist() == [1, 1, 2, 0, 2]
    assert npz.load(saved(tmp_path)).domain is None


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"domain_train": [1, 2]}, "domain_train has shape (2,), but there are 4 exam"),
        ({"domain_train": [0.5] * 4}, "domain_train has type float64. Name every sour"),
        (
            {"domain_train": [1] * 4, "x_test": np.ones((1, 2), "f"), "y_test": [1]},
            "but domain_test is missing. Save one source for each of the 1 test exampl",
        ),
    ],
)
def test_sources_that_do_not_fit_the_examples_are_named(tmp_path, more, message):
    with refused(message):
        npz.load(saved(tmp_path, **more))


def test_sources_are_texts_or_numbers_in_both_parts():
    two = (np.zeros((2, 1), np.float32), np.arange(2))
    with refused("domain_train has type int64, but domain_test <U1. Name sources by i"):
        domains.attach(assemble("toy", two, two), [0, 1], ["a", "b"])


# ------------------------------------------------------------------ every scheme


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("name", SCHEMES)
def test_every_scheme_divides_what_is_neither_public_nor_kept_for_the_test(
    name, pooled
):
    dataset = labels_only([100] * 4, test=80, sources=12)
    dataset = public.choose(dataset, share=0.1, classes=0.5, pooled=pooled, seed=1)
    parts = public.divide(dataset, SCHEMES[name], clients=6, pooled=pooled)
    mine = np.concatenate([*parts.train, *(parts.test if pooled else ())])
    rest = np.setdiff1d(np.arange(400 if pooled else 320), dataset.public)
    np.testing.assert_array_equal(np.sort(mine), rest)
    if not pooled:
        assert all(rows.tolist() == [*range(320, 400)] for rows in parts.test)


@pytest.mark.parametrize("name", SCHEMES)
def test_examples_of_another_set_are_nobodys_under_every_scheme(name):
    dataset = labels_only([100] * 4, sources=12)
    both = public.append(dataset, labels_only([5] * 4))
    one = public.divide(dataset, SCHEMES[name], clients=6)
    other = public.divide(both, SCHEMES[name], clients=6)
    for a, b in zip([*one.train, *one.test], [*other.train, *other.test], strict=True):
        np.testing.assert_array_equal(a, b)


@fast
@given(st.sampled_from([*BY_LABEL]), st.permutations(range(48)), seeds)
def test_the_order_of_examples_does_not_change_the_classes_of_clients(
    name, order, seed
):
    y = np.arange(48) % 4
    counts = []
    for labels in (y, y[order]):
        scheme = BY_LABEL[name]
        client_rows = scheme.assign(labels, 4, 4, scheme.make_rng(seed))
        counts.append(count(labels, client_rows))
    np.testing.assert_array_equal(*counts)


@fast
@given(st.sampled_from([*BY_SIZE]), st.permutations(range(6)), seeds)
def test_names_of_classes_do_not_matter_to_schemes_that_do_not_look_at_them(
    name, names, seed
):
    y = np.arange(60) % 6
    scheme = BY_SIZE[name]
    one, other = (
        scheme.assign(labels, 6, 5, scheme.make_rng(seed))
        for labels in (y, np.array(names)[y])
    )
    assert [*map(list, one)] == [*map(list, other)]


@fast
@given(st.permutations(range(40)), seeds)
def test_the_order_of_examples_does_not_change_the_sources_of_clients(order, seed):
    domain, scheme, counts = np.arange(40) % 7, schemes.feature(), []
    for domain_N in (domain, domain[order]):
        client_rows = scheme.assign(domain_N, 7, 3, scheme.make_rng(seed))
        counts.append(count(domain_N, client_rows))
    np.testing.assert_array_equal(*counts)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    st.sampled_from(["dirichlet", "quantity", "pfllib"]),
    st.floats(-3, 3),
    st.integers(1, 1_000),
    seeds,
)
def test_any_alpha_and_up_to_a_thousand_clients_end_in_seconds(
    name, log_alpha, clients, seed
):
    dataset = labels_only([1_500] * 10)
    scheme = schemes.PARTITIONS[name](10**log_alpha)
    start = time.perf_counter()
    try:
        hands_of(scheme, dataset, clients, seed)
    except UserError as error:
        assert name == "pfllib" and "1000 draws gave none" in str(error)
    assert time.perf_counter() - start < 10


# ------------------------------------------------------------------ published settings


def test_cifar100_at_alpha_05_has_the_published_counts():
    """The setting that `test_partition` has not."""
    dataset = labels_only([600] * 100)
    divided = schemes.divide(dataset, schemes.pfllib_dirichlet(0.5), clients=20)
    train, test = counted = describe.counts(dataset, divided)
    whole = [rows[: len(rows) // 32 * 32] for rows in divided.train]
    used, _ = describe.counts(dataset, schemes.Partition(whole, whole))
    size_K = train.sum(axis=1)
    assert [(c > 0).sum() for c in (train + test, train, used)] == [1702, 1643, 1641]
    assert (size_K.min(), size_K.max()) == (1950, 2385)
    assert ((size_K // 32).sum(), (size_K // 32).min()) == (1398, 60)
    assert (test.sum(), describe.unseen(counted)) == (15008, 72)


def test_flowers_has_the_sum_of_classes_that_the_published_cost_implies():
    """T Table 1: 690 to 710 pairs are implied, 1.37 million is printed."""
    dataset = labels_only(FLOWERS)
    client_rows = hands_of(schemes.pfllib_dirichlet(0.1), dataset, 20)
    held_K = (count(dataset.y, client_rows) > 0).sum(axis=1)
    assert len(dataset.y) == 8_189 and held_K.sum() == 691
    cost = fedproto(Spec(102, 500)).nominal(held_K, {})
    assert f"{cost / 1e6:.2f}" == "1.37"
