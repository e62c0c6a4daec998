"""The legacy partitions are the published ones, number by number."""

from itertools import product

import numpy as np
from sklearn.model_selection import train_test_split
from support.every import every
from support.labels import CIFAR10, CIFAR100, FLOWERS, NEWS, TINY, held, labels_only
from support.refusal import refused

from jaxproto.data import partition_stats
from jaxproto.data.partitions import label_skew, partition, pfllib
from jaxproto.data.partitions.label_skew import Scheme

# CIFAR-10 pooled, 20 clients, alpha 0.1, seed 1: shipped with N's and FedTGP's code.
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
CIFAR10_PATHOLOGICAL = (  # of the released recipe, two classes per client
    "2266 1250 2243 6241 2009 952 1734 7305 1859 2514 "
    "2046 5581 1605 1114 1548 7733 2649 1442 2084 5825"
)


def test_pfllib_dirichlet_reproduces_the_cifar10_matrix():
    """The matrix that ships with the code, and its K_i and n_i through it."""
    found = held(CIFAR10, pfllib.pfllib_dirichlet(0.1))
    np.testing.assert_array_equal(found, CIFAR10_KC)


PUBLISHED = [  # sizes, clients, alpha; pairs, n_train, batches, test examples
    (CIFAR10, 20, 0.1, (102, 101, 101), (873, 4495), (1395, 27), (15005, 1)),
    (CIFAR10, 20, 0.5, (176, 175, 175), (1072, 3444), (1397, 33), (15008, 2)),
    (CIFAR10, 20, 1.0, (189, 189, 189), (1227, 2816), (1398, 38), (15007, 0)),
    (CIFAR100, 20, 0.01, (249, 230, 229), (1035, 2691), (1396, 32), (15005, 20)),
    (CIFAR100, 20, 0.1, (921, 869, 868), (1955, 2519), (1396, 61), (15008, 58)),
    (CIFAR100, 20, 0.5, (1702, 1643, 1641), (1950, 2385), (1398, 60), (15008, 72)),
    (CIFAR100, 20, 1.0, (1881, 1860, 1859), (2087, 2355), (1397, 65), (15007, 30)),
    (CIFAR100, 50, 0.1, (1920, 1806, 1796), (495, 1101), (1384, 15), (15017, 123)),
    (CIFAR100, 100, 0.1, (3271, 3040, 3002), (206, 612), (1362, 6), (15038, 267)),
    (TINY, 20, 0.1, (1853, 1759, 1758), (3603, 4408), (2567, 112), (27508, 103)),
    (NEWS, 20, 0.1, (46, 45, 41), (17, 15008), (2982, 0), (31906, 1)),
]


@every(PUBLISHED)
def test_pfllib_dirichlet_reproduces_the_table_of_published_settings(
    sizes, clients, alpha, pairs, n_train, batches, tested
):
    """The released recipe with seed 1 and batches of 32."""
    dataset = labels_only(sizes)
    scheme = pfllib.pfllib_dirichlet(alpha)
    divided = partition.partition_dataset(dataset, scheme, clients=clients)
    train, test, _ = counted = partition_stats.counts(dataset, divided)
    whole = [rows[: len(rows) // 32 * 32] for rows in divided.train]
    used, *_ = partition_stats.counts(dataset, partition.Partition(whole, whole))
    batch_K = train.sum(axis=1) // 32
    assert tuple((c > 0).sum() for c in (train + test, train, used)) == pairs
    assert (train.sum(axis=1).min(), train.sum(axis=1).max()) == n_train
    assert (batch_K.sum(), batch_K.min()) == batches
    assert (test.sum(), partition_stats.num_unseen(counted)) == tested


def test_pfllib_dirichlet_needs_37_attempts_for_cifar10_at_alpha_001():
    """The released recipe: 34 client-class pairs, and one client with one example."""
    y = labels_only(CIFAR10).y
    enough = pfllib.pfllib_dirichlet(0.01, max_tries=37)
    client_rows = enough.assign(y, 10, 20, enough.make_rng(1))
    assert sum(len(np.unique(y[rows])) for rows in client_rows) == 34
    assert min(map(len, client_rows)) == 1
    too_few = pfllib.pfllib_dirichlet(0.01, max_tries=36)
    with refused("alpha=0.01: 36 draws gave none in which each of 20 clients has 1 of"):
        too_few.assign(y, 10, 20, too_few.make_rng(1))


def test_twenty_clients_hold_the_published_pairs():
    """Sum K_i; the cost of the pairs of Flowers: `test_nominal_cost.py`."""
    assert sum(FLOWERS) == 8_189  # images; T Table 1 implies 690 to 710 pairs
    assert (held(FLOWERS, pfllib.pfllib_dirichlet(0.1)) > 0).sum() == 691
    for sizes, classes in ((CIFAR10, 2), (CIFAR100, 10), (TINY, 20)):
        held_KC = held(sizes, pfllib.pfllib_pathological(classes))
        assert (held_KC > 0).sum() == 20 * classes
        assert held_KC.sum(axis=0).tolist() == sizes


def test_pfllib_pathological_has_the_released_sizes_and_leaves_the_last_classes_out():
    """43 classes, 20 clients of 4: ceil(80 / 43) = 2 owners serve only 40 classes."""
    size_K = held(CIFAR10, pfllib.pfllib_pathological(2)).sum(axis=1)
    assert size_K.tolist() == [*map(int, CIFAR10_PATHOLOGICAL.split())]
    held_C = held([100] * 43, pfllib.pfllib_pathological(4)).sum(axis=0)
    assert held_C.tolist() == [100] * 40 + [0] * 3


@every([*product([pfllib.pfllib_dirichlet(0.1), label_skew.iid()], [0.75, 0.6])])
def test_the_split_is_that_of_sklearn_on_the_same_stream(scheme, share):
    """docs/decisions.md#pool; sklearn continues numpy's global stream."""
    dataset = labels_only([600] * 10)
    scheme = Scheme(scheme.assign, np.random.RandomState)
    options = {"clients": 7, "train_share": share, "seed": 1}
    divided = partition.partition_dataset(dataset, scheme, **options)
    before = np.random.get_state()
    try:
        np.random.seed(1)
        client_rows = scheme.assign(dataset.y, 10, 7, np.random.mtrand._rand)
        theirs = [train_test_split(rows, train_size=share) for rows in client_rows]
    finally:
        np.random.set_state(before)
    for ours, (train, test) in zip(zip(*divided[:2], strict=True), theirs, strict=True):
        np.testing.assert_array_equal(ours[0], train)
        np.testing.assert_array_equal(ours[1], test)
