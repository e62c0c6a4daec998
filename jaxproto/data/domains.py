"""Sources of examples, such as writers, cameras or hospitals.

A data set may have the source of every example (`domain_train` and `domain_test` of an
npz file, or the folders of `domains:PATH`). The partition `feature` divides examples by
source.
"""

from collections.abc import Sequence

import numpy as np

from jaxproto import errors
from jaxproto.data import labels
from jaxproto.data.dataset import Dataset


def attach_domains(
    dataset: Dataset, train: np.ndarray, test: np.ndarray | None = None
) -> Dataset:
    """Adds the source of every example to a data set, numbered in sorted order.

    Args:
      dataset: without sources.
      train, test: sources [N] of the official parts, integers or texts.
    """
    size, rest = dataset.train_size, len(dataset.y) - dataset.train_size
    checked = [_check(dataset.name, "domain_train", train, size)]
    if rest:
        checked.append(_check(dataset.name, "domain_test", test, rest))
    kinds = [f"{array.dtype}" for array in checked]
    if len({array.dtype.kind in "iu" for array in checked}) > 1:
        raise errors.UserError(
            f"{dataset.name}: domain_train has type {kinds[0]}, but domain_test "
            f"{kinds[1]}. Name sources by integers in both, or by texts in both."
        )
    named = labels.different_labels(checked)
    domain_N = np.concatenate([labels.number_labels(d_N, named) for d_N in checked])
    names = tuple(map(str, named))
    labels.check_alike(dataset.name, names)
    return dataset._replace(domain=domain_N.astype(np.int32), domains=names)


def _check(name, key, array, size):
    if array is None:
        raise errors.UserError(
            f"{name}: the training examples have sources, but {key} is missing. Save "
            f"one source for each of the {size} test examples too."
        )
    array = np.asarray(array)
    if array.shape != (size,):
        raise errors.UserError(
            f"{name}: {key} has shape {array.shape}, but there are {size} examples. "
            "Save one source per example."
        )
    if array.dtype.kind not in "iuU":
        raise errors.UserError(
            f"{name}: {key} has type {array.dtype}. Name every source by an integer or "
            "a text."
        )
    return array


def domains_of_clients(
    dataset: Dataset, client_rows: Sequence[np.ndarray]
) -> np.ndarray | None:
    """Returns the source [K] of each client's examples.

    None if the data set has no sources, or a client has examples of several.
    """
    if dataset.domain is None:
        return None
    domains = [np.unique(dataset.domain[rows]) for rows in client_rows]
    return np.concatenate(domains) if {*map(len, domains)} == {1} else None


def domain_ids(dataset: Dataset) -> tuple[np.ndarray, int]:
    """Returns the source [N] of every example, and the number of sources."""
    if dataset.domain is None:
        raise errors.UserError(
            f"data set {dataset.name!r} does not say where its examples come from, "
            "which partition 'feature' divides by. Save domain_train (and domain_test) "
            "in an npz file, an integer or a text per example, or use domains:PATH."
        )
    return dataset.domain, int(dataset.domain.max()) + 1
