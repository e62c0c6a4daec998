"""Data sets of labels alone, and schemes that divide them."""

import numpy as np

from jaxproto.data import partition_stats
from jaxproto.data.dataset import Dataset
from jaxproto.data.partitions import label_skew, other_skews, partition, pfllib

SCHEMES = {
    "dirichlet": label_skew.dirichlet(0.3),
    "extended_dirichlet": label_skew.extended_dirichlet(2, 0.3),
    "pathological": label_skew.pathological(2),
    "pfllib": pfllib.pfllib_dirichlet(0.5, least_samples=3),
    "pfllib_pathological": pfllib.pfllib_pathological(2),
    "shards": label_skew.shards(2),
    "iid": label_skew.iid(),
    "quantity": other_skews.quantity_skew(0.5),
    "lognormal": other_skews.lognormal_sizes(1.0),
    "feature": other_skews.by_domain(),
}
# Examples of each class, official parts together; Oxford Flowers-102: 8,189 images.
CIFAR10, CIFAR100, TINY, NEWS = [6000] * 10, [600] * 100, [550] * 200, [31900] * 4
FLOWERS = [
    *(40, 60, 40, 56, 65, 45, 40, 85, 46, 45, 87, 87, 49, 48, 49, 41, 85, 82, 49, 56),
    *(40, 59, 91, 42, 41, 41, 40, 66, 78, 85, 52, 45, 46, 40, 43, 75, 108, 56, 41, 67),
    *(127, 59, 130, 93, 40, 196, 67, 71, 49, 92, 258, 85, 93, 61, 71, 109, 67, 114),
    *(67, 109, 50, 55, 54, 52, 102, 61, 42, 54, 54, 62, 78, 96, 194, 171, 120, 107),
    *(251, 137, 41, 105, 166, 112, 131, 86, 63, 58, 63, 154, 184, 82, 76, 66, 46, 162),
    *(128, 91, 66, 82, 63, 49, 58, 48),
]


def labels_only(sizes, test=0):
    """Makes a data set of labels alone, in the order of classes of these sizes."""
    y = np.repeat(np.arange(len(sizes)), sizes).astype(np.int32)
    return Dataset("toy", np.zeros((len(y), 1), np.uint8), y, len(sizes), len(y) - test)


def shuffled(sizes, test=0, sources=0):
    made = labels_only(sizes, test)
    domain = np.arange(len(made.y)) % sources if sources else None
    return made._replace(y=np.random.default_rng(0).permutation(made.y), domain=domain)


def held(sizes, scheme):
    """Examples of 20 clients, training and test data together [K, C]."""
    dataset = labels_only(sizes)
    divided = partition.partition_dataset(dataset, scheme, clients=20)
    return sum(partition_stats.counts(dataset, divided)[:2])


def count(ids, rows_of_clients):
    """Counts the rows of each id per client [K, ids]."""
    each = (np.bincount(ids[rows], minlength=ids.max() + 1) for rows in rows_of_clients)
    return np.stack([*each])
