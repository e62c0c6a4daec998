"""Schemes that divide examples over clients, drawn from numpy's Generator.

A scheme depends on labels only (`other_skews.by_domain`: on sources only) and uses
every example exactly once (`pfllib_pathological`: at most once). `pfllib` has schemes
on numpy's legacy stream, and `registry` has all schemes by name.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from jaxproto import errors

Rng = np.random.Generator | np.random.RandomState


class Scheme(NamedTuple):
    """Division of examples over clients, with the random stream that it uses."""

    # y_N, num_classes, clients, rng -> the rows of each client
    assign: Callable[[np.ndarray, int, int, Rng], list[np.ndarray]]
    make_rng: Callable[[int], Rng] = np.random.default_rng  # seed -> rng
    by_source: bool = False  # `assign` takes sources in place of classes
    least: int = 1  # examples that every client gets
    field: str = ""  # of the configuration that sets `least`


def iid() -> Scheme:
    """Shuffles all examples and cuts them into sizes that differ by at most one."""

    def assign(y_N, num_classes, clients, rng):
        return np.array_split(rng.permutation(len(y_N)), clients)

    return Scheme(assign)


def dirichlet(alpha: float, *, min_size: int = 2, max_tries: int = 100) -> Scheme:
    """Divides each class in proportions drawn from Dirichlet(alpha).

    As in PFLlib, a client that has its fair share N / K already gets nothing of the
    next class, and all classes are drawn again while a client has fewer than `min_size`
    examples. Unlike in PFLlib, cuts are rounded (remainders do not pile up on the last
    client), and after `max_tries` draws the smallest clients are topped up from the
    largest (`draw_enough`).

    Args:
      alpha: concentration, small values give uneven clients; 0.1 in papers T and N.
      min_size: least examples of a client; 2 give a training and a test example.
      max_tries: draws before topping up.
    """

    def assign(y_N, num_classes, clients, rng):
        count_C = np.bincount(y_N, minlength=num_classes)
        draw = partial(_dirichlet_counts, count_C, clients, alpha, rng)
        return _split_by_counts(y_N, draw_enough(draw, min_size, max_tries), rng)

    return Scheme(assign, least=min_size, field="data.min_size")


def _dirichlet_counts(count_C, clients, alpha, rng):
    count_KC = np.zeros((clients, len(count_C)), int)
    size_K = np.zeros(clients, int)
    for c in np.flatnonzero(count_C):
        unfilled_K = size_K < count_C.sum() / clients
        share_K = rng.dirichlet(np.full(clients, alpha)) * unfilled_K
        if not share_K.sum() > 0:  # all mass underflowed or fell on full clients
            share_K = np.eye(clients)[rng.choice(np.flatnonzero(unfilled_K))]
        cut_K = np.rint(np.cumsum(share_K / share_K.sum()) * count_C[c]).astype(int)
        count_KC[:, c] = np.diff(cut_K, prepend=0)
        size_K += count_KC[:, c]
    return count_KC


def draw_enough(
    draw: Callable[[], np.ndarray], min_size: int, max_tries: int
) -> np.ndarray:
    """Draws counts [K, C] until every client has at least `min_size` examples.

    After `max_tries` draws it tops up the last one: the smallest client gets one
    example of the majority class of the largest client, until all have enough. There
    must be K * min_size examples.
    """
    for _ in range(max_tries):
        count_KC = draw()
        size_K = count_KC.sum(axis=1)
        if size_K.min() >= min_size:
            break
    while size_K.min() < min_size:
        smallest, largest = size_K.argmin(), size_K.argmax()
        c = count_KC[largest].argmax()
        count_KC[largest, c] -= 1
        count_KC[smallest, c] += 1
        size_K[largest] -= 1
        size_K[smallest] += 1
    return count_KC


def pathological(classes_per_client: int) -> Scheme:
    """Gives each client this many classes, and each class to equally many clients.

    The clients of a class (their numbers differ by at most one between classes) share
    its examples equally. The code of paper N has 2 for CIFAR-10 and 10 for CIFAR-100.
    """

    def assign(y_N, num_classes, clients, rng):
        count_C = np.bincount(y_N, minlength=num_classes)
        num_present = int(np.count_nonzero(count_C))
        check_classes(num_present, classes_per_client)
        _check_places(num_present, clients, classes_per_client)
        owns_KC = _owners(count_C > 0, clients, classes_per_client, rng)
        return share_equally(y_N, owns_KC, rng)

    return Scheme(assign)


def share_equally(y_N: np.ndarray, owns_KC: np.ndarray, rng: Rng) -> list[np.ndarray]:
    """Divides the examples of each class equally among the clients that own it."""
    count_C = np.bincount(y_N, minlength=owns_KC.shape[1])
    count_KC = np.zeros(owns_KC.shape, int)
    for c in np.flatnonzero(count_C * owns_KC.any(0)):
        owner_S = rng.permutation(np.flatnonzero(owns_KC[:, c]))
        advice = "Use fewer clients, or give a client fewer classes."
        check_owners(f"class {c}", count_C[c], len(owner_S), advice)
        whole, rest = divmod(count_C[c], len(owner_S))
        count_KC[owner_S, c] = whole + (np.arange(len(owner_S)) < rest)
    return _split_by_counts(y_N, count_KC, rng)


def shards(classes_per_client: int) -> Scheme:
    """Sorts examples by class, and gives each client equally many equal shards.

    McMahan et al., "Communication-Efficient Learning of Deep Networks from
    Decentralized Data", AISTATS 2017, https://arxiv.org/abs/1602.05629: two shards for
    each client.

    Args:
      classes_per_client: number of shards of a client. A shard that spans the border of
        two classes gives its client a class more.
    """

    def assign(y_N, num_classes, clients, rng):
        by_class = [rng.permutation(rows) for rows in rows_by_class(y_N, num_classes)]
        shard_rows = np.array_split(
            np.concatenate(by_class), clients * classes_per_client
        )
        shard_KS = rng.permutation(len(shard_rows)).reshape(clients, -1)
        return [np.concatenate([shard_rows[i] for i in own_S]) for own_S in shard_KS]

    field = "data.classes_per_client"
    return Scheme(assign, least=classes_per_client, field=field)


def extended_dirichlet(
    classes_per_client: int, alpha: float, *, min_size: int = 2, max_tries: int = 100
) -> Scheme:
    """Draws some classes for each client, and divides a class by Dirichlet(alpha).

    Li, Lyu, "Convergence Analysis of Sequential Federated Learning on Heterogeneous
    Data", NeurIPS 2023, https://arxiv.org/abs/2311.03154.

    Deviations:
      paper: draws until every class has a client and every client enough examples.
        Here: at most `max_tries` draws of each; then classes are assigned as by
        `pathological`, and clients are topped up as by `dirichlet`.

    Args:
      classes_per_client: number of classes of a client.
      alpha: concentration, small values divide a class unevenly.
      min_size, max_tries: as in `dirichlet`.
    """

    def assign(y_N, num_classes, clients, rng):
        count_C = np.bincount(y_N, minlength=num_classes)
        present = np.flatnonzero(count_C)
        check_classes(len(present), classes_per_client)
        _check_places(len(present), clients, classes_per_client)
        owns_KC = np.zeros((clients, num_classes), bool)
        for _ in range(max_tries):
            draw_KC = rng.random((clients, len(present)))
            rank_KC = draw_KC.argsort(1).argsort(1)
            owns_KC[:, present] = rank_KC < classes_per_client
            if owns_KC.any(0)[present].all():
                break
        else:
            owns_KC = _owners(count_C > 0, clients, classes_per_client, rng)

        def draw():
            count_KC = np.zeros((clients, num_classes), int)
            for c in present:
                owners = np.flatnonzero(owns_KC[:, c])
                share_S = rng.dirichlet(np.full(len(owners), alpha))
                cut_S = np.rint(np.cumsum(share_S)[:-1] * count_C[c]).astype(int)
                count_KC[owners, c] = np.diff(cut_S, prepend=0, append=count_C[c])
            return count_KC

        return _split_by_counts(y_N, draw_enough(draw, min_size, max_tries), rng)

    return Scheme(assign, least=min_size, field="data.min_size")


def _owners(exists_C, clients, classes_per_client, rng):
    """Assigns classes to clients, first those with most places left; [K, C] bool."""
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
    """Returns the rows of each client by counts [K, C], shuffled in each class.

    Rows of a class beyond its counts are nobody's.
    """
    rows_C = rows_by_class(y_N, count_KC.shape[1])
    by_class = [  # of each class, the rows of each client
        np.split(rng.permutation(rows)[: count_K.sum()], np.cumsum(count_K)[:-1])
        for rows, count_K in zip(rows_C, count_KC.T, strict=True)
    ]
    return [np.concatenate(rows) for rows in zip(*by_class, strict=True)]


def check_classes(present: int, classes_per_client: int) -> None:
    """Raises UserError if clients should have more classes than have examples."""
    if classes_per_client > present:
        raise errors.UserError(
            f"data.classes_per_client is {classes_per_client}, but only {present} "
            f"classes have examples. Use at most {present}.",
            advice=[{"data.classes_per_client": present}],
        )


def _check_places(present, clients, classes_per_client):
    if clients * classes_per_client < present:
        most, fewest = -(-present // clients), -(-present // classes_per_client)
        raise errors.UserError(
            f"{clients} clients with {classes_per_client} classes each hold "
            f"{clients * classes_per_client} classes, but {present} have examples. Use "
            f"at least {fewest} clients or data.classes_per_client of at least {most}.",
            advice=[{"data.clients": fewest}, {"data.classes_per_client": most}],
        )


def check_owners(name: str, examples: int, owners: int, advice: str) -> None:
    """Raises UserError if a class or source has fewer examples than clients."""
    if examples < owners:
        raise errors.UserError(
            f"{name} has {examples} examples for {owners} clients. {advice}"
        )
