"""What of a run is on several devices, and how it gets there and back.

Index tables of clients are dealt as clients are. Where a client always trains on the
device that has it, that device has the examples of its own clients alone; where a part
of the clients takes part in a round, or clients are hosted, every device has all.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxproto import devices
from jaxproto.config import build
from jaxproto.config.build import Experiment
from jaxproto.config.cohorts import HOSTED
from jaxproto.devices import REPLICATED, SHARDED, Layout
from jaxproto.storage import divided
from jaxproto.training.programs import State
from jaxproto.types import Array, Client, Examples, Shard


class Placed(NamedTuple):
    """Data on the devices."""

    examples: Examples
    train: tuple[Shard, ...]  # index tables per cohort
    test: tuple[Shard | Array, ...]


def apart(exp: Experiment) -> bool:
    """Whether each device has the examples of its own clients alone."""
    return exp.store not in HOSTED and not any(
        c.stateless or c.max_participants for c in exp.cohorts
    )


def placed(exp: Experiment, layout: Layout) -> Placed:
    """Examples and tables of a run; of hosted clients, each round brings its tables."""
    data = exp.dataset
    x: Any = build.in_rows(data.x)
    y: Any = np.asarray(data.y, np.int32)
    public: Any = data.public
    every = Examples(x, y, public, data.x.shape[1:])
    if exp.store in HOSTED:
        return Placed(layout.put(every, REPLICATED), exp.train, exp.test)
    tables = [dealt_tables(layout.number, own) for own in (*exp.train, *exp.test)]
    if apart(exp):
        examples, tables = _divided(layout, every, tables)
    else:
        examples = layout.put(every, REPLICATED)
    there = layout.put(tuple(tables), SHARDED)
    return Placed(examples, there[: len(exp.train)], there[len(exp.train) :])


def dealt_tables(number: int, tables: Shard | Array) -> Any:
    """Index tables, empty where there is nobody; of batches, the last one again."""
    if not isinstance(tables, Shard):
        return devices.deal(tables, number)
    count = len(tables.size)
    used = devices.order(count, number) < count
    index, size = devices.deal((tables.index, tables.size), number)
    return Shard(index, np.where(used, size, 0).astype(np.int32))


def _divided(layout: Layout, every: Examples, tables: Sequence[Shard]):
    """The examples of each device, public ones first, and tables of their places.

    Args:
      tables: dealt, on the host.
    """
    public = np.zeros(0, int) if every.public is None else np.asarray(every.public)
    blocks = [np.split(np.asarray(t.index), layout.number) for t in tables]
    pools = []
    for own in zip(*blocks, strict=True):
        needed = np.concatenate([index.ravel() for index in own])
        pools.append(np.concatenate([public, np.setdiff1d(needed, public)]))
    anew = [
        Shard(np.concatenate(list(map(_places, pools, own))), table.size)
        for table, own in zip(tables, blocks, strict=True)
    ]
    size = max(map(len, pools))
    rows = np.concatenate([np.resize(pool, size) for pool in pools])
    shown = None if every.public is None else np.arange(len(public), dtype=np.int32)
    return (
        Examples(
            layout.taken(every.x, rows),
            layout.taken(every.y, rows),
            layout.put(shown, REPLICATED),
            every.shape,
        ),
        anew,
    )


def _places(pool: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Where in a pool of rows those of an index are."""
    order = np.argsort(pool, kind="stable")
    return order[np.searchsorted(pool, index, sorter=order)].astype(np.int32)


def dealt_clients(layout: Layout, clients: Client, nobody: int) -> Client:
    """Clients of the host on the devices; `nobody` is the id where there is none."""
    ids = layout.dealt_ids(clients.id, nobody)
    return layout.dealt(clients).replace(id=ids)


def saved(exp: Experiment, state: State) -> State:
    """The state as one device has it, on the host."""
    if exp.layout is None:
        return state
    there = devices.to_host((state.server, state.clients))
    if exp.store in HOSTED:
        return state._replace(server=there[0], clients=there[1])
    clients = tuple(
        devices.undeal(own, len(cohort.ids), exp.layout.number)
        for cohort, own in zip(exp.cohorts, there[1], strict=True)
    )
    return state._replace(server=there[0], clients=clients)


def described_state(exp: Experiment, state: State) -> State:
    """As `saved`, but shapes alone of the clients."""
    layout = exp.layout
    assert layout is not None and exp.store not in HOSTED

    def shape(a, count):
        return jax.ShapeDtypeStruct((count, *a.shape[1:]), a.dtype)

    clients = tuple(
        jax.tree.map(partial(shape, count=len(cohort.ids)), own)
        for cohort, own in zip(exp.cohorts, state.clients, strict=True)
    )
    return state._replace(server=devices.to_host(state.server), clients=clients)


def own_rows(exp: Experiment, state: State) -> dict[str, np.ndarray]:
    """The clients on the devices of this process, as `storage/divided.py` has them."""
    assert exp.layout is not None
    found: dict[str, np.ndarray] = {}
    for i, (cohort, own) in enumerate(zip(exp.cohorts, state.clients, strict=True)):
        place = devices.order(len(cohort.ids), exp.layout.number)
        for path, a in jax.tree_util.tree_leaves_with_path(own):
            parts = sorted(a.addressable_shards, key=_start)
            at = np.concatenate([place[part.index[0]] for part in parts])
            there = at < len(cohort.ids)
            rows = np.concatenate([np.asarray(part.data) for part in parts])[there]
            if rows.size:
                found[f".clients[{i}]{jax.tree_util.keystr(path)}"] = rows
                found[divided.PLACES.format(i)] = at[there]
    return found


def _start(part) -> int:
    return part.index[0].start or 0


def restored(exp: Experiment, state: State) -> State:
    """A state that was saved, on the devices."""
    if exp.layout is None:
        return state
    nobody, layout = len(exp.counts.train), exp.layout
    clients = state.clients
    if exp.store not in HOSTED:
        clients = tuple(dealt_clients(layout, own, nobody) for own in clients)
    return state._replace(server=layout.put(state.server, REPLICATED), clients=clients)


def described(exp: Experiment, layout: Layout) -> str:
    """One line for who reads along: how many clients each device has."""
    kind = layout.mesh.devices.ravel()[0].device_kind
    each = ", ".join(
        f"{c.name} {devices.width(c.num_rows, layout.number)} of {c.num_rows}"
        for c in exp.cohorts
    )
    return f"{layout.number} devices ({kind}); participants on each: {each}"
