"""Gathers the participants of a round from all clients, and scatters them back.

The cost of a round grows with the participants, not with the registered clients. The
number of rows is fixed by the most clients that the sampler can draw. Unused rows have
an id that no client has; they take no step and send nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto.core.types import Array, ArrayLike, Client, Shard, Tree
from jaxproto.round.participation import Participation


class ParticipantRows(NamedTuple):
    """Clients of a cohort that one call of a program trains."""

    place: ArrayLike | None  # [R] in the cohort, its length for unused rows; None: all
    clients: Client  # [R, ...]
    shards: Shard  # [R, ...]


def participation_flags(who: Participation, id_R: Array) -> Participation:
    """Returns which clients of `id_R` train and report [R]; unknown ids do neither."""
    return Participation(*(a.at[id_R].get(mode="fill", fill_value=False) for a in who))


def participant_places(
    who: Participation, id_K: Array, num_rows: int, calls: int = 1
) -> list[tuple[Array | None, Array]]:
    """Returns places and ids of the participants of a cohort, [R] for each call.

    Participants are assigned to calls in turn. Clients are in the order of their local
    steps, so all calls have about the same work.

    Args:
      who: Participation by client id over all cohorts.
      id_K: Ids of the clients of the cohort [K].
      num_rows: Rows of all calls, at least the number of participants; K rows in one
        call are all clients, and their places None.
      calls: Calls that train the cohort side by side.
    """
    if calls == 1 and num_rows == len(id_K):
        return [(None, id_K)]
    width = -(-num_rows // calls)
    rank = jnp.arange(1, width * calls + 1)  # of each participant in the cohort
    place = jnp.searchsorted(jnp.cumsum(participation_flags(who, id_K).trains), rank)
    ids = id_K.at[place].get(mode="fill", fill_value=len(who.trains))
    return [(place[i::calls], ids[i::calls]) for i in range(calls)]


def gather(
    who: Participation, clients: Client, shards: Shard, num_rows: int, calls: int = 1
) -> list[ParticipantRows]:
    """Gathers the participants of a cohort; unused rows hold arbitrary values.

    Args:
      who, num_rows, calls: As in `participant_places`.
      clients: All clients of the cohort [K, ...].
      shards: Training examples of the clients [K, ...].
    """
    rows_of_calls = []
    for place, ids in participant_places(who, clients.id, num_rows, calls):
        rows, tables = take_rows((clients, shards), place)
        rows_of_calls.append(ParticipantRows(place, rows.replace(id=ids), tables))
    return rows_of_calls


def take_rows(tree: Tree, place: Array | None) -> Tree:
    """Returns rows of arrays [K, ...]; places beyond the last row give the last one."""
    if place is None:
        return tree
    return jax.tree.map(lambda a: a.at[place].get(mode="clip"), tree)


def scatter(
    clients: Client, places: Sequence[ArrayLike | None], trained: Sequence[Client]
) -> Client:
    """Returns all clients of a cohort with the trained rows of each call."""
    for place, new in zip(places, trained, strict=True):
        clients = new if place is None else put_rows(clients, place, new)
    return clients


def put_rows(tree: Tree, place: ArrayLike, new: Tree) -> Tree:
    """Returns arrays [K, ...] with new rows; drops rows at places beyond K."""
    return jax.tree.map(lambda a, b: a.at[place].set(b, mode="drop"), tree, new)


def where_rows(on_R: Array, new: Tree, old: Tree) -> Tree:
    """Returns rows of `new` where `on_R` is true, else of `old`."""

    def choose(a, b):
        return jnp.where(on_R.reshape(-1, *[1] * (a.ndim - 1)), a, b)

    return jax.tree.map(choose, new, old)


def join_by_id(ids: Sequence[Array | Sequence[int]], trees: Sequence[Tree]) -> Tree:
    """Joins rows of several arrays in the order of their ids, unused rows last.

    Args:
      ids: Client ids of each tree [R].
      trees: Trees of arrays [R, ...].
    """
    order = jnp.argsort(jnp.concatenate(list(map(jnp.asarray, ids))), stable=True)
    return jax.tree.map(lambda *rows: jnp.concatenate(rows)[order], *trees)
