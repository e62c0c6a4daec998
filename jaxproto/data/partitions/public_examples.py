"""Public examples: labelled rows that the server and every client have.

They are withdrawn from the partition, or come from another data set; no client has them
in its own shard. So a run with public examples has the same partition as one without,
except for these examples.
"""

import numpy as np

from jaxproto import errors
from jaxproto.data import registry
from jaxproto.data.dataset import Dataset, input_type
from jaxproto.data.partitions.label_skew import Scheme
from jaxproto.data.partitions.partition import (
    Partition,
    partition_dataset,
)

STREAM = 1  # stream of the data seed


def load(config) -> Dataset:
    """Loads a data set by `registry.load`, with public examples.

    Args:
      config: the fields `data`. The seed also draws public examples.
    """
    share, other = config.public_share, config.public_source
    if other and share:
        raise errors.UserError(
            f"data.public_source is {other!r} and data.public_share {share}: public "
            "examples come from one of both. Set data.public_share to 0 or "
            'data.public_source to "".',
            advice=[{"data.public_share": 0.0}, {"data.public_source": ""}],
        )
    if other and other == config.name:
        raise errors.UserError(
            f"data.public_source is {other!r}, the data set of the clients, whose test "
            "examples would be public. Set data.public_share for a part of it."
        )
    options = {key: config[key] for key in ("data_dir", "seed", "pixels", "columns")}
    dataset = registry.load(config.name, **options)
    if dataset.y.min() == dataset.y.max():
        raise errors.UserError(
            f"{config.name}: all {len(dataset.y)} examples have one label, so that "
            "there is nothing to learn. Give examples of two classes at least."
        )
    if other:
        return append_public(dataset, registry.load(other, **options))
    if share:
        return make_some_public(
            dataset,
            share=share,
            classes=config.public_classes,
            pooled=config.pool,
            seed=config.seed,
        )
    return dataset


def sample_public_rows(
    y: np.ndarray, share: float, classes: float, seed: int
) -> np.ndarray:
    """Draws a class-balanced sample of some of the classes; returns sorted rows.

    Args:
      y: labels [N].
      share: share of all N examples; at least one example of each covered class.
      classes: share of the classes that are covered; at least one class.
      seed: of the data, any whole number.
    """
    rng = np.random.default_rng([STREAM, seed % 2**32])
    present = np.unique(y)
    covered = rng.permutation(present)[: max(1, round(classes * len(present)))]
    size = max(1, round(share * len(y) / len(covered)))
    return np.sort(np.concatenate([_sample(y, c, size, rng) for c in covered]))


def _sample(y_N, c, size, rng):
    """Draws rows of class c."""
    rows = np.flatnonzero(y_N == c)
    if len(rows) < size:
        raise errors.UserError(
            f"class {c} has {len(rows)} examples, but {size} of each covered class are "
            "to be public. Lower data.public_share or raise data.public_classes."
        )
    return rng.permutation(rows)[:size]


def make_some_public(
    dataset: Dataset, *, share: float, classes: float, pooled: bool, seed: int
) -> Dataset:
    """Makes a sample of all examples public; if not pooled, of the training part."""
    y_N = dataset.y if pooled else dataset.y[: dataset.train_size]
    rows = sample_public_rows(y_N, share, classes, seed)
    return dataset._replace(public=rows.astype(np.int32))


def append_public(dataset: Dataset, extra: Dataset) -> Dataset:
    """Appends all examples of another data set as public ones."""
    for what, expected, actual in (
        ("inputs of shape", dataset.x.shape[1:], extra.x.shape[1:]),
        ("inputs of type", input_type(dataset.x), input_type(extra.x)),
        ("number of classes", dataset.num_classes, extra.num_classes),
    ):
        if expected != actual:
            raise errors.UserError(
                f"public data {extra.name!r} have {what} {actual}, but data set "
                f"{dataset.name!r} has {expected}. Bring the public examples to the "
                "same form (an npz file may declare num_classes)."
            )
    if dataset.tokens != extra.tokens:
        raise errors.UserError(
            f"public data {extra.name!r} have another vocabulary than data set "
            f"{dataset.name!r}. Save both with the same tokens."
        )
    _check_names(dataset, extra)
    size, domain_N = len(dataset.y), dataset.domain
    if domain_N is not None:
        none = np.full(len(extra.y), -1, np.int32)  # a source of no client
        domain_N = np.concatenate([domain_N, none])
    return dataset._replace(
        x=np.concatenate([dataset.x, extra.x]),
        y=np.concatenate([dataset.y, extra.y]),
        public=np.arange(size, size + len(extra.y), dtype=np.int32),
        notes=(*dataset.notes, *extra.notes),
        domain=domain_N,
        foreign=len(extra.y),
    )


def _check_names(dataset, extra):
    """Raises UserError if names of classes differ.

    They must be equal if both data sets name their classes, or if all are numbers.
    """
    names = [dataset.class_names(), extra.class_names()]
    both_named = dataset.classes and extra.classes
    numbers = all(name.lstrip("-").isdecimal() for pair in names for name in pair)
    if names[0] != names[1] and (both_named or numbers):
        c = next(
            c for c, pair in enumerate(zip(*names, strict=True)) if len({*pair}) > 1
        )
        raise errors.UserError(
            f"public data {extra.name!r} call class {c} {names[1][c]!r}, but data set "
            f"{dataset.name!r} calls it {names[0][c]!r}. Give both the same labels."
        )


def divide(dataset: Dataset, scheme: Scheme, **options) -> Partition:
    """Divides a data set by `partition_dataset`, and withdraws public examples."""
    return remove_public(dataset, partition_dataset(dataset, scheme, **options))


def remove_public(dataset: Dataset, parts: Partition) -> Partition:
    """Removes public examples from a partition."""
    if dataset.public is None:
        return parts
    is_public = np.zeros(len(dataset.y), bool)
    is_public[dataset.public] = True
    private = [tuple(rows[~is_public[rows]] for rows in part) for part in parts]
    names = "training", "test", "validation"
    for name, before_K, after_K in zip(names, parts, private, strict=True):
        for k, (before, after) in enumerate(zip(before_K, after_K, strict=True)):
            if len(before) and not len(after):
                raise errors.UserError(
                    f"all {len(before)} {name} examples of client {k} are public. "
                    "Lower data.public_share, give clients more examples "
                    "(data.min_size; pfllib: data.least_samples) or take another "
                    "data.seed."
                )
    return Partition(*private)
