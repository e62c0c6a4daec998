"""Schemes that divide examples over clients, drawn from numpy's Generator.

A scheme depends on labels only (`other_skews.by_domain`: on sources only) and uses
every example exactly once. `pfllib` has the legacy streams, `registry` all schemes.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from jaxproto import errors
from jaxproto.data.dataset import Dataset

Rng = np.random.Generator | np.random.RandomState


def labels(dataset: Dataset) -> tuple[np.ndarray, int]:
    """Returns the class [N] of every example, and the number of classes."""
    return dataset.y, dataset.num_classes


class Scheme(NamedTuple):
    """Division of examples over clients, with the random stream that it uses."""

    # y_N, num_classes, clients, rng -> the rows of each client
    assign: Callable[[np.ndarray, int, int, Rng], list[np.ndarray]]
    make_rng: Callable[[int], Rng] = np.random.default_rng  # seed -> rng
    looks_at: Callable[[Dataset], tuple[np.ndarray, int]] = labels  # y_N, num_classes


def iid() -> Scheme:
    """Shuffles all examples and cuts them into sizes that differ by at most one."""

    def assign(y_N, num_classes, clients, rng):
        check_enough_examples(len(y_N), clients, 1)
        return np.array_split(rng.permutation(len(y_N)), clients)

    return Scheme(assign)


def dirichlet(alpha: float, *, min_size: int = 2, max_tries: int = 100) -> Scheme:
    """Divides each class in proportions drawn from Dirichlet(alpha).

    As in PFLlib, a client that has its fair share N / K already gets nothing of the
    next class, and all is drawn again while a client has fewer than `min_size`
    examples. Unlike in PFLlib, cuts are rounded (remainders do not pile up on the last
    client), and after `max_tries` the smallest clients are topped up from the largest
    (`ensure_min_size`).

    Args:
      alpha: small is uneven; 0.1 in papers T and N.
      min_size: examples per client; 2 at least to have training and test examples.
      max_tries: draws before topping up.
    """
    check_positive("alpha", alpha)
    check_whole("max_tries", max_tries)

    def assign(y_N, num_classes, clients, rng):
        check_enough_examples(len(y_N), clients, min_size)
        count_C = np.bincount(y_N, minlength=num_classes)
        draw = partial(_dirichlet_counts, count_C, clients, alpha, rng)
        return _split_by_counts(y_N, draw_enough(draw, min_size, max_tries), rng)

    return Scheme(assign)


def _dirichlet_counts(count_C, clients, alpha, rng):
    count_KC = np.zeros((clients, len(count_C)), int)
    size_K = np.zeros(clients, int)
    for c in np.flatnonzero(count_C):
        open_K = size_K < count_C.sum() / clients
        share_K = rng.dirichlet(np.full(clients, alpha)) * open_K
        if not share_K.sum() > 0:  # all mass underflowed or fell on full clients
            share_K = np.eye(clients)[rng.choice(np.flatnonzero(open_K))]
        cut_K = np.rint(np.cumsum(share_K / share_K.sum()) * count_C[c]).astype(int)
        count_KC[:, c] = np.diff(cut_K, prepend=0)
        size_K += count_KC[:, c]
    return count_KC


def draw_enough(
    draw: Callable[[], np.ndarray], min_size: int, max_tries: int
) -> np.ndarray:
    """Draws counts [K, C] until every client has `min_size` examples, or tops up."""
    for _ in range(max_tries):
        count_KC = draw()
        if count_KC.sum(axis=1).min() >= min_size:
            break
    return ensure_min_size(count_KC, min_size)


def ensure_min_size(count_KC: np.ndarray, min_size: int) -> np.ndarray:
    """Returns counts [K, C] in which every client has at least `min_size` examples.

    The smallest client gets one example of the majority class of the largest client,
    until all have enough. There must be K * min_size examples.
    """
    count_KC = count_KC.copy()
    size_K = count_KC.sum(axis=1)
    while size_K.min() < min_size:
        poor, rich = size_K.argmin(), size_K.argmax()
        c = count_KC[rich].argmax()
        count_KC[rich, c] -= 1
        count_KC[poor, c] += 1
        size_K[rich] -= 1
        size_K[poor] += 1
    return count_KC


def pathological(classes_per_client: int) -> Scheme:
    """Gives each client this many classes, and each class to equally many clients.

    The clients of a class (their numbers differ by at most one between classes) share
    its examples equally. N's code has 2 for CIFAR-10, 10 for CIFAR-100.
    """
    check_whole("classes_per_client", classes_per_client)

    def assign(y_N, num_classes, clients, rng):
        check_enough_examples(len(y_N), clients, 1)
        count_C = np.bincount(y_N, minlength=num_classes)
        there = np.count_nonzero(count_C)
        check_classes(there, classes_per_client)
        _check_places(there, clients, classes_per_client)
        owns_KC = _owners(count_C > 0, clients, classes_per_client, rng)
        count_KC = np.zeros(owns_KC.shape, int)
        for c in np.flatnonzero(count_C):
            owner_S = rng.permutation(np.flatnonzero(owns_KC[:, c]))
            way = "Use fewer clients or a smaller classes_per_client."
            check_owners(f"class {c}", count_C[c], len(owner_S), way)
            whole, rest = divmod(count_C[c], len(owner_S))
            count_KC[owner_S, c] = whole + (np.arange(len(owner_S)) < rest)
        return _split_by_counts(y_N, count_KC, rng)

    return Scheme(assign)


def shards(classes_per_client: int) -> Scheme:
    """Sorts examples by class, cuts them into equal shards, gives each client some.

    McMahan et al., "Communication-Efficient Learning of Deep Networks from
    Decentralized Data", AISTATS 2017, https://arxiv.org/abs/1602.05629: two shards for
    each client.

    Args:
      classes_per_client: shards of a client; it has at most one class more for each,
        where a shard reaches from a class to the next.
    """
    check_whole("classes_per_client", classes_per_client)

    def assign(y_N, num_classes, clients, rng):
        check_enough_examples(len(y_N), clients, classes_per_client)
        rows = [rng.permutation(own) for own in rows_by_class(y_N, num_classes)]
        every = np.array_split(np.concatenate(rows), clients * classes_per_client)
        deal_KS = rng.permutation(len(every)).reshape(clients, -1)
        return [np.concatenate([every[i] for i in deal_S]) for deal_S in deal_KS]

    return Scheme(assign)


def extended_dirichlet(
    classes_per_client: int, alpha: float, *, min_size: int = 2, max_tries: int = 100
) -> Scheme:
    """Draws some classes for each client, and divides a class by Dirichlet(alpha).

    Li, Lyu, "Convergence Analysis of Sequential Federated Learning on Heterogeneous
    Data", NeurIPS 2023, https://arxiv.org/abs/2311.03154.

    Deviations:
      paper: draws until every class has a client and every client enough examples.
        Here: at most `max_tries` draws of each; then classes are given as by
        `pathological`, and clients are topped up as by `dirichlet`.

    Args:
      classes_per_client: classes that a client draws.
      alpha: small is uneven among the clients of a class.
      min_size, max_tries: as in `dirichlet`.
    """
    check_whole("classes_per_client", classes_per_client)
    check_positive("alpha", alpha)
    check_whole("max_tries", max_tries)

    def assign(y_N, num_classes, clients, rng):
        check_enough_examples(len(y_N), clients, min_size)
        count_C = np.bincount(y_N, minlength=num_classes)
        there = np.flatnonzero(count_C)
        check_classes(len(there), classes_per_client)
        _check_places(len(there), clients, classes_per_client)
        owns_KC = np.zeros((clients, num_classes), bool)
        for _ in range(max_tries):
            draw_KC = rng.random((clients, len(there)))
            rank_KC = draw_KC.argsort(1).argsort(1)
            owns_KC[:, there] = rank_KC < classes_per_client
            if owns_KC.any(0)[there].all():
                break
        else:
            owns_KC = _owners(count_C > 0, clients, classes_per_client, rng)

        def draw():
            count_KC = np.zeros((clients, num_classes), int)
            for c in there:
                owners = np.flatnonzero(owns_KC[:, c])
                share_S = rng.dirichlet(np.full(len(owners), alpha))
                cut_S = np.rint(np.cumsum(share_S)[:-1] * count_C[c]).astype(int)
                count_KC[owners, c] = np.diff(cut_S, prepend=0, append=count_C[c])
            return count_KC

        return _split_by_counts(y_N, draw_enough(draw, min_size, max_tries), rng)

    return Scheme(assign)


def _owners(exists_C, clients, classes_per_client, rng):
    """Returns the classes of each client [K, C] bool, those with most places first."""
    left_C = np.zeros(len(exists_C), int)
    class_P = rng.permutation(np.flatnonzero(exists_C))
    whole, rest = divmod(clients * classes_per_client, len(class_P))
    left_C[class_P] = whole + (np.arange(len(class_P)) < rest)
    owns_KC = np.zeros((clients, len(exists_C)), bool)
    for owns_C in owns_KC:
        order_C = np.lexsort((rng.random(len(left_C)), -left_C))  # ties at random
        owns_C[order_C[:classes_per_client]] = True
        left_C -= owns_C
    return owns_KC


def rows_by_class(y_N: np.ndarray, num_classes: int) -> list[np.ndarray]:
    """Returns the rows of each class, in the order of the data set."""
    ends_C = np.cumsum(np.bincount(y_N, minlength=num_classes))
    return np.split(np.argsort(y_N, kind="stable"), ends_C[:-1])


def _split_by_counts(y_N, count_KC, rng):
    """Returns the rows of each client by counts [K, C], shuffled in each class."""
    client_rows = []
    for rows, count_K in zip(
        rows_by_class(y_N, count_KC.shape[1]), count_KC.T, strict=True
    ):
        client_rows.append(np.split(rng.permutation(rows), np.cumsum(count_K)[:-1]))
    return [np.concatenate(rows) for rows in zip(*client_rows, strict=True)]


def check_positive(argument: str, value: float) -> None:
    """Raises UserError unless `value` is in (0, 1e6]."""
    if not 0 < value <= 1e6:
        raise errors.UserError(
            f"{argument} is {value}, but must be above 0 and at most 1e6. Small values "
            "make clients uneven, large ones alike (for exactly alike use 'iid')."
        )


def check_whole(argument: str, value: int) -> None:
    """Raises UserError unless `value` is an integer of at least 1."""
    if value < 1 or value != int(value):
        raise errors.UserError(f"{argument} is {value}. Give an integer of at least 1.")


def check_enough_examples(examples: int, clients: int, min_size: int) -> None:
    """Raises UserError unless every client can have `min_size` examples."""
    check_whole("clients", clients)
    check_whole("min_size", min_size)
    if clients * min_size > examples:
        fewer = f", or min_size {examples // clients}" * (examples >= clients)
        raise errors.UserError(
            f"{clients} clients with at least {min_size} examples each need "
            f"{clients * min_size} examples, but there are {examples}. "
            f"Use at most {examples // min_size} clients{fewer}."
        )


def check_classes(there: int, classes_per_client: int) -> None:
    """Raises UserError if clients should have more classes than there are."""
    if classes_per_client > there:
        raise errors.UserError(
            f"classes_per_client is {classes_per_client}, but only {there} classes "
            f"have examples. Use at most {there}."
        )


def _check_places(there, clients, classes_per_client):
    if clients * classes_per_client < there:
        raise errors.UserError(
            f"{clients} clients with {classes_per_client} classes each hold "
            f"{clients * classes_per_client} classes, but {there} have examples. Use "
            f"at least {-(-there // classes_per_client)} clients or classes_per_client "
            f"of at least {-(-there // clients)}."
        )


def check_owners(name: str, examples: int, owners: int, way: str) -> None:
    """Raises UserError if a class or source has fewer examples than clients."""
    if examples < owners:
        raise errors.UserError(
            f"{name} has {examples} examples for {owners} clients. {way}"
        )
