"""Who gets which examples: exact legacy streams, laws of the schemes, messages."""

import csv
import io
import re
import time

import numpy as np
import pytest
import rich.console
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.model_selection import train_test_split

from jaxproto.data import describe, partition
from jaxproto.data.scheme import Scheme, top_up
from jaxproto.data.source import Source
from jaxproto.errors import UserError

fast = settings(max_examples=60, deadline=None, derandomize=True)

# Specification 8.1: CIFAR-10 pooled, 20 clients, alpha 0.1, seed 1.
CIFAR10_KC = np.array(
    """
    0,9,0,668,476,287,5,167,0,9  7,1,62,0,43,0,0,177,1524,0  0,0,16,158,1034,3,0,0,0,0
    0,402,12,7,0,0,1,0,1,1657  24,0,5104,0,0,0,0,0,0,0  2832,0,0,1432,0,0,0,0,0,0
    36,0,578,708,114,0,0,0,4,0  0,210,2,30,962,1,0,2,0,1415
    0,18,0,137,11,0,0,2568,8,232
    2,0,0,2511,723,0,0,0,0,0  454,0,2,0,0,0,0,53,655,0  9,744,0,7,187,5,0,93,226,693
    248,0,2,0,360,1802,1,0,3581,0  0,21,3,237,96,1161,0,9,0,0  0,16,0,0,153,1,0,2930,0,0
    0,1394,157,28,18,0,735,0,0,1993  2358,9,61,2,1822,0,0,0,0,0  0,3175,0,0,0,0,0,0,0,0
    29,0,0,74,0,89,5257,0,0,0  1,1,1,1,1,2651,1,1,1,1
    """.replace(",", " ").split(),
    int,
).reshape(20, 10)
CIFAR10_PATHOLOGICAL = (  # specification 8.1, two classes per client
    "2266 1250 2243 6241 2009 952 1734 7305 1859 2514 "
    "2046 5581 1605 1114 1548 7733 2649 1442 2084 5825"
)


def labels_only(sizes, test=0):
    """A data set of nothing but labels: the streams depend on class sizes alone."""
    y = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    return Source("toy", np.zeros((len(y), 1), np.uint8), y, len(sizes), len(y) - test)


def refused(message):
    return pytest.raises(UserError, match=re.escape(message))


def sizes_of(rows):
    return [len(r) for r in rows]


# ------------------------------------------------------------------ the legacy streams


def test_pfllib_dirichlet_reproduces_the_cifar10_matrix():
    """Specification 8.1, and its K_i and n_i through them."""
    source = labels_only([6000] * 10)
    divided = partition.divide(source, partition.pfllib_dirichlet(0.1), clients=20)
    train, test = describe.counts(source, divided)
    np.testing.assert_array_equal(train + test, CIFAR10_KC)


@pytest.mark.parametrize(
    ("sizes", "clients", "alpha", "held", "n_train", "batches", "tested"),
    [
        ([6000] * 10, 20, 0.1, (102, 101, 101), (873, 4495), (1395, 27), (15005, 1)),
        ([6000] * 10, 20, 0.5, (176, 175, 175), (1072, 3444), (1397, 33), (15008, 2)),
        ([6000] * 10, 20, 1.0, (189, 189, 189), (1227, 2816), (1398, 38), (15007, 0)),
        ([600] * 100, 20, 0.1, (921, 869, 868), (1955, 2519), (1396, 61), (15008, 58)),
        ([600] * 100, 20, 0.01, (249, 230, 229), (1035, 2691), (1396, 32), (15005, 20)),
        (
            [600] * 100,
            20,
            1.0,
            (1881, 1860, 1859),
            (2087, 2355),
            (1397, 65),
            (15007, 30),
        ),
        (
            [600] * 100,
            50,
            0.1,
            (1920, 1806, 1796),
            (495, 1101),
            (1384, 15),
            (15017, 123),
        ),
        (
            [600] * 100,
            100,
            0.1,
            (3271, 3040, 3002),
            (206, 612),
            (1362, 6),
            (15038, 267),
        ),
        (
            [550] * 200,
            20,
            0.1,
            (1853, 1759, 1758),
            (3603, 4408),
            (2567, 112),
            (27508, 103),
        ),
        ([31900] * 4, 20, 0.1, (46, 45, 41), (17, 15008), (2982, 0), (31906, 1)),
    ],
)
def test_pfllib_dirichlet_reproduces_the_table_of_published_settings(
    sizes, clients, alpha, held, n_train, batches, tested
):
    """Specification 4.1: C10, C100, Tiny ImageNet, AG News; seed 1, batches of 32."""
    source = labels_only(sizes)
    scheme = partition.pfllib_dirichlet(alpha)
    divided = partition.divide(source, scheme, clients=clients)
    train, test = counted = describe.counts(source, divided)
    whole = [rows[: len(rows) // 32 * 32] for rows in divided.train]
    used, _ = describe.counts(source, partition.Partition(whole, whole))
    batch_K = train.sum(axis=1) // 32
    assert tuple((c > 0).sum() for c in (train + test, train, used)) == held
    assert (train.sum(axis=1).min(), train.sum(axis=1).max()) == n_train
    assert (batch_K.sum(), batch_K.min()) == batches
    assert (test.sum(), describe.unseen(counted)) == tested


def test_pfllib_dirichlet_needs_37_attempts_for_cifar10_at_alpha_001():
    """Specification 4.1: 34 client-class pairs, and one client with one example."""
    y = labels_only([6000] * 10).y
    enough = partition.pfllib_dirichlet(0.01, max_tries=37)
    hands = enough.assign(y, 10, 20, enough.make_rng(1))
    assert sum(len(np.unique(y[rows])) for rows in hands) == 34
    assert min(sizes_of(hands)) == 1
    too_few = partition.pfllib_dirichlet(0.01, max_tries=36)
    with refused("alpha=0.01: 36 draws gave none in which each of 20 clients has 1 of"):
        too_few.assign(y, 10, 20, too_few.make_rng(1))


def test_pfllib_pathological_reproduces_the_cifar10_sizes():
    """Specification 8.1."""
    source = labels_only([6000] * 10)
    divided = partition.divide(source, partition.pfllib_pathological(2), clients=20)
    counted = sum(describe.counts(source, divided))
    assert counted.sum(axis=1).tolist() == [*map(int, CIFAR10_PATHOLOGICAL.split())]


@pytest.mark.parametrize(
    ("sizes", "classes", "pairs"),
    [([6000] * 10, 2, 40), ([600] * 100, 10, 200), ([550] * 200, 20, 400)],
)
def test_pfllib_pathological_holds_the_published_pairs(sizes, classes, pairs):
    """Specification 8.1: sum K_i for C10, C100 and Tiny ImageNet."""
    source = labels_only(sizes)
    scheme = partition.pfllib_pathological(classes)
    hands = scheme.assign(source.y, len(sizes), 20, scheme.make_rng(1))
    assert sum(len(np.unique(source.y[rows])) for rows in hands) == pairs
    assert np.array_equal(np.sort(np.concatenate(hands)), np.arange(len(source.y)))


def test_pfllib_pathological_leaves_the_last_classes_out_where_theirs_does():
    """43 classes, 20 clients of 4: ceil(80 / 43) = 2 owners serve only 40 classes."""
    source = labels_only([100] * 43)
    divided = partition.divide(source, partition.pfllib_pathological(4), clients=20)
    held_C = sum(describe.counts(source, divided)).sum(axis=0)
    assert held_C.tolist() == [100] * 40 + [0] * 3


@pytest.mark.parametrize("scheme", [partition.pfllib_dirichlet(0.1), partition.iid()])
@pytest.mark.parametrize("share", [0.75, 0.6])
def test_the_split_is_that_of_sklearn_on_the_same_stream(scheme, share):
    """Specification 4.1 item 5; sklearn continues numpy's global stream."""
    source = labels_only([600] * 10)
    scheme = Scheme(scheme.assign, np.random.RandomState)
    divided = partition.divide(source, scheme, clients=7, train_share=share, seed=1)
    before = np.random.get_state()
    try:
        np.random.seed(1)
        hands = scheme.assign(source.y, 10, 7, np.random.mtrand._rand)
        theirs = [train_test_split(rows, train_size=share) for rows in hands]
    finally:
        np.random.set_state(before)
    for ours, (train, test) in zip(zip(*divided, strict=True), theirs, strict=True):
        np.testing.assert_array_equal(ours[0], train)
        np.testing.assert_array_equal(ours[1], test)


# ------------------------------------------------------------------ laws of the schemes

class_sizes = st.lists(st.integers(0, 40), min_size=1, max_size=8).filter(any)
seeds = st.integers(0, 2**32 - 1)


def assigned(scheme, sizes, clients, seed):
    """Labels in a shuffled order, and the hands; every example is in exactly one."""
    y = np.random.default_rng(0).permutation(labels_only(sizes).y)
    hands = scheme.assign(y, len(sizes), clients, scheme.make_rng(seed))
    assert len(hands) == clients
    np.testing.assert_array_equal(np.sort(np.concatenate(hands)), np.arange(len(y)))
    return y, hands


@fast
@given(class_sizes, st.integers(1, 12), seeds)
def test_iid_uses_every_example_once_in_sizes_that_differ_by_at_most_one(
    sizes, clients, seed
):
    assume(clients <= sum(sizes))
    _, hands = assigned(partition.iid(), sizes, clients, seed)
    assert max(sizes_of(hands)) - min(sizes_of(hands)) <= 1


@fast
@given(class_sizes, st.integers(1, 12), st.integers(1, 5), st.floats(-3, 3), seeds)
def test_dirichlet_uses_every_example_once_and_honours_min_size(
    sizes, clients, min_size, log_alpha, seed
):
    assume(clients * min_size <= sum(sizes))
    scheme = partition.dirichlet(10**log_alpha, min_size=min_size, max_tries=3)
    _, hands = assigned(scheme, sizes, clients, seed)
    assert min(sizes_of(hands)) >= min_size


@fast
@given(st.lists(st.integers(12, 40), min_size=1, max_size=8), st.data(), seeds)
def test_pathological_gives_each_client_its_number_of_classes(sizes, data, seed):
    classes = data.draw(st.integers(1, len(sizes)))
    clients = data.draw(st.integers(-(-len(sizes) // classes), 12))
    scheme = partition.pathological(classes)
    y, hands = assigned(scheme, sizes, clients, seed)
    held_KC = np.stack([np.bincount(y[rows], minlength=len(sizes)) for rows in hands])
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
    scheme = partition.pfllib_dirichlet(10**log_alpha, max_tries=20)
    try:
        _, hands = assigned(scheme, sizes, clients, seed)
    except UserError as error:
        assert "20 draws gave none" in str(error)
    else:
        assert min(sizes_of(hands)) >= 1


@fast
@given(class_sizes, st.integers(1, 6), st.sampled_from([0.5, 0.75, 0.9]), seeds)
def test_train_and_test_share_out_a_client_by_train_share(sizes, clients, share, seed):
    assume(10 * clients <= sum(sizes))
    source = labels_only(sizes)
    scheme = partition.dirichlet(0.5, min_size=10)
    train, test = partition.divide(
        source, scheme, clients=clients, train_share=share, seed=seed
    )
    everyone = np.sort(np.concatenate([*train, *test]))
    np.testing.assert_array_equal(everyone, np.arange(len(source.y)))
    for a, b in zip(train, test, strict=True):
        assert a.dtype == b.dtype == np.int32
        assert len(a) == int(share * (len(a) + len(b)))


@pytest.mark.parametrize("alpha", [1e-3, 1e-1, 1e3])
def test_a_thousand_clients_are_served_in_seconds(alpha):
    source = labels_only([2_000] * 10)
    start = time.perf_counter()
    scheme = partition.dirichlet(alpha, min_size=15)
    divided = partition.divide(source, scheme, clients=1_000)
    assert time.perf_counter() - start < 10
    assert min(map(sum, zip(*map(sizes_of, divided), strict=True))) >= 15


def test_small_alpha_is_more_uneven_than_large_alpha():
    source = labels_only([500] * 10)
    pairs = [
        (describe.counts(source, divided).train > 0).sum()
        for alpha in (0.01, 0.1, 1.0, 100.0)
        for divided in [
            partition.divide(source, partition.dirichlet(alpha), clients=10)
        ]
    ]
    assert pairs == sorted(pairs) and pairs[0] < 40 and pairs[-1] == 100


def test_topping_up_moves_the_richest_clients_commonest_class_and_nothing_more():
    given_KC = np.array([[0, 0], [7, 2], [3, 3]])
    assert top_up(given_KC, 2).tolist() == [[2, 0], [5, 2], [3, 3]]
    assert top_up(given_KC, 0).tolist() == given_KC.tolist()


@pytest.mark.parametrize("name", ["iid", "dirichlet", "pathological"])
def test_the_same_seed_gives_the_same_partition_and_another_a_different_one(name):
    source = labels_only([60] * 4)
    arguments = {"dirichlet": [0.5], "pathological": [2]}.get(name, [])
    scheme = partition.PARTITIONS[name](*arguments)
    one, again, other = (
        np.concatenate(partition.divide(source, scheme, clients=4, seed=s).train)
        for s in (1, 1, 2)
    )
    assert one.tolist() == again.tolist() != other.tolist()


def test_not_pooled_trains_on_the_official_part_and_tests_all_on_the_whole_other():
    """Specification 4.3."""
    source = labels_only([20, 20, 20], test=15)
    divided = partition.divide(source, partition.iid(), clients=5, pooled=False)
    assert sorted(np.concatenate(divided.train)) == list(range(45))
    assert all(rows.tolist() == list(range(45, 60)) for rows in divided.test)
    blocks = partition.divide(
        source, partition.pathological(3), clients=1, pooled=False
    )
    assert blocks.train[0].tolist() != sorted(blocks.train[0])  # batches mix classes


# ------------------------------------------------------------------ messages

SMALL = labels_only([5, 5])


@pytest.mark.parametrize(
    ("scheme", "clients", "message"),
    [
        (partition.iid(), 11, "need 11 examples, but there are 10. Use at most 10 cli"),
        (partition.iid(), 0, "clients is 0. Give an integer of at least 1."),
        (
            partition.dirichlet(1.0, min_size=4),
            3,
            "need 12 examples, but there are 10. Use at most 2 clients or at most 3 ea",
        ),
        (partition.dirichlet(1.0, min_size=0), 3, "min_size is 0. Give an integer of"),
        (
            partition.pathological(3),
            2,
            "is 3, but only 2 classes have examples. Use at",
        ),
        (
            partition.pathological(1),
            1,
            "but 2 have examples. Use at least 2 clients or classes_per_client of at l",
        ),
        (partition.pathological(2), 6, "class 0 has 5 examples for 6 clients. Use few"),
        (partition.pfllib_dirichlet(1.0), 11, "need 11 examples, but there are 10. Us"),
        (partition.pfllib_pathological(3), 2, "is 3, but only 2 classes have examples"),
        (
            partition.pfllib_pathological(2),
            6,
            "class 0 has 5 examples for 6 clients, t",
        ),
        (partition.iid(), 10, "client 0 gets 0 training and 1 test examples at train_"),
        (
            partition.iid(),
            10,
            "0.75 (and so do 9 more clients). Raise min_size (pfllib",
        ),
    ],
)
def test_an_impossible_partition_is_refused_with_both_numbers(scheme, clients, message):
    with refused(message):
        partition.divide(SMALL, scheme, clients=clients)


@pytest.mark.parametrize("alpha", [0, -1.0, float("nan"), float("inf"), 1e9])
def test_alpha_must_be_positive_and_finite(alpha):
    for make in (partition.dirichlet, partition.pfllib_dirichlet):
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
        partition.divide(SMALL, partition.iid(), clients=2, **arguments)


# ------------------------------------------------------------------ descriptions


def wrap(size_K, batch_size):  # batches.wrap in numpy: one step at least
    return np.maximum(size_K // batch_size, 1)


def test_work_counts_steps_dropped_examples_and_padding_by_hand():
    cohorts = [[0, 2], [1, 3]]
    work = describe.work(
        [100, 64, 33, 5], cohorts, batch_size=32, epochs=2, per_epoch=wrap
    )
    assert work.steps.tolist() == [6, 4, 2, 2] and work.dropped.tolist() == [4, 0, 1, 0]
    assert work.waste == (4 / 12, 2 / 8) and work.total_waste == 6 / 20


def test_a_client_below_one_batch_that_never_trains_drops_all_its_examples():
    work = describe.work(
        [40, 5], [[0], [1]], batch_size=32, epochs=1, per_epoch=np.floor_divide
    )
    assert work.steps.tolist() == [1, 0] and work.dropped.tolist() == [8, 5]
    assert work.waste == (0.0, 0.0) and work.total_waste == 0.0


def test_partition_csv_has_client_split_and_one_column_per_class(tmp_path):
    counts = describe.Counts(np.array([[3, 0], [1, 2]]), np.array([[1, 0], [0, 1]]))
    describe.write_csv(tmp_path / "partition.csv", counts)
    with open(tmp_path / "partition.csv") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["client", "split", "0", "1"]
    assert rows[1:3] == [["0", "train", "3", "0"], ["0", "test", "1", "0"]]
    assert rows[3:] == [["1", "train", "1", "2"], ["1", "test", "0", "1"]]


def shown(table):
    console = rich.console.Console(file=io.StringIO(), width=120)
    console.print(table)
    return " ".join(console.file.getvalue().split())


def test_the_table_shows_sizes_classes_counts_and_waste():
    counts = describe.Counts(
        np.array([[3, 0, 9], [0, 2, 0]]), np.array([[1, 1, 0]] * 2)
    )
    work = describe.work([12, 2], [[0, 1]], batch_size=4, epochs=1, per_epoch=wrap)
    text = shown(describe.table(counts, work))
    assert "0 │ 12 │ 2 │ 2 │ 3 │ 0:3 2:9" in text
    assert "1 │ 2 │ 2 │ 1 │ 1 │ 1:2" in text
    assert "2 test examples of classes unseen in training" in text
    assert "padding would waste 33%" in text


def test_the_table_stays_short_with_many_classes_and_clients():
    counts = describe.Counts(*(np.tile(np.arange(200), (1000, 1)),) * 2)
    text = shown(describe.table(counts))
    assert "195:195 196:196 197:197 198:198 199:199 +194 more" in text
    assert "clients from 50 on not shown" in text
    assert "1 classes without examples" in text and len(text) < 8_000
