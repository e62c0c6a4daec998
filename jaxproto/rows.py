"""Clients of a cohort that take part in a round, as rows of that round's arrays.

A round costs what its participants cost: their rows are taken out of the arrays of all
registered clients, and put back afterwards. There is room for as many as the sampler
can draw; rows that are not used take no step and send nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto.participation import Participation
from jaxproto.types import Array, Tree


class Rows(NamedTuple):
    """Who takes part; rows keep the order of the cohort."""

    at: Array | None  # [R] places in the cohort, its length if not used; None is all
    id: Array  # [R] client ids, more than there are if not used
    trains: Array  # [R]
    reports: Array  # [R]


class Lane(NamedTuple):
    """One of several programs that train the participants of a cohort side by side."""

    number: Array | int = 0  # [] from 0
    of: int = 1


WHOLE = Lane()


def of(participants: Participation, id_K: Array, room: int, lane: Lane = WHOLE) -> Rows:
    """The participants of a cohort, or every n-th of them.

    Args:
      participants: by client id over all cohorts.
      id_K: the client of each row that there is; rows with an id that no client has
        take no part.
      room: rows to choose, at least as many as take part.
      lane: which of them. Participants are dealt one by one, as rows are in the order
        of their local steps, so that all lanes have about the same work.
    """
    trains, reports = (
        on.at[id_K].get(mode="fill", fill_value=False) for on in participants
    )
    if lane.of == 1 and room >= len(id_K):
        return Rows(None, id_K, trains, reports)
    width = -(-min(room, len(id_K)) // lane.of)
    number = jnp.arange(1, width * lane.of + 1)  # of each participant in the cohort
    at = jnp.searchsorted(jnp.cumsum(trains), number)  # len(id_K) where there is none
    at = at.reshape(width, lane.of)[:, lane.number]
    nobody = len(participants.trains)
    id_R = id_K.at[at].get(mode="fill", fill_value=nobody)
    used = at < len(id_K)
    return Rows(at, id_R, used, used & reports.at[at].get(mode="clip"))


def dealt(tree: Tree, lane: Lane) -> Tree:
    """Every n-th row of arrays [K, ...]; the last again where there is none left."""
    if lane.of == 1:
        return tree

    def mine(a):
        at = jnp.arange(-(-len(a) // lane.of)) * lane.of + lane.number
        return a.at[at].get(mode="clip")

    return jax.tree.map(mine, tree)


def gathered(parts: Sequence[np.ndarray], count: int) -> np.ndarray:
    """The rows [count, ...] that lanes have made of what they were dealt."""
    return np.stack(parts, 1).reshape(-1, *parts[0].shape[1:])[:count]


def take(tree: Tree, rows: Rows) -> Tree:
    """The rows of arrays [K, ...]; whatever stands in those that are not used."""
    if rows.at is None:
        return tree
    return jax.tree.map(lambda a: a.at[rows.at].get(mode="clip"), tree)


def put(tree: Tree, rows: Rows, new: Tree) -> Tree:
    """Arrays [K, ...] with new rows where clients take part."""
    if rows.at is None:
        return select(rows.trains, new, tree)
    return jax.tree.map(lambda a, b: a.at[rows.at].set(b, mode="drop"), tree, new)


def select(on_R: Array, new: Tree, old: Tree) -> Tree:
    """Rows of `new` where `on_R`, else of `old`."""

    def choose(a, b):
        return jnp.where(on_R.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)


def in_order(ids: Sequence[int], parts: Sequence[Tree]) -> Tree:
    """Joins what cohorts return into one tree, in the order of client ids.

    Args:
      ids: of all rows of all parts, each once.
    """
    order = sorted(range(len(ids)), key=ids.__getitem__)

    def join(*rows):
        all_K = jnp.concatenate(rows)
        known = order == list(range(len(ids)))
        return all_K if known else all_K[jnp.asarray(order)]

    return jax.tree.map(join, *parts)


def ordered(ids: Sequence[Array], parts: Sequence[Tree]) -> Tree:
    """The same where who takes part is known in the program alone.

    Args:
      ids: per cohort [R]; rows that are not used come last.
    """
    order = jnp.argsort(jnp.concatenate(ids), stable=True)
    return jax.tree.map(lambda *rows: jnp.concatenate(rows)[order], *parts)
