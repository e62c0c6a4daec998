"""Placement of examples and index tables on several devices.

Index tables are assigned to devices as clients are. If clients always train on their
own device, each device has only the examples of its clients. If a round has only some
of the clients, or clients are hosted, every device has all examples.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxproto import mesh
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.mesh import REPLICATED, SHARDED, DeviceLayout
from jaxproto.types import Examples, Shard


class PlacedTables(NamedTuple):
    """Index tables per cohort on several devices."""

    train: tuple[Shard, ...]
    test: tuple[Shard, ...]


def examples_are_sharded(exp: Experiment) -> bool:
    """Returns whether each device has only the examples of its clients."""
    return not any(c.stateless or c.sampled for c in exp.cohorts)


def examples_spec(exp: Experiment) -> Any:
    """Returns the partition of examples over devices, public ones on each."""
    if not isinstance(exp.layout, DeviceLayout) or not examples_are_sharded(exp):
        return REPLICATED
    rows: Any = SHARDED
    public = jax.tree.map(lambda rows: REPLICATED, exp.dataset.public)
    return Examples(rows, rows, public, shape=exp.dataset.x.shape[1:])


def place_data(exp: Experiment) -> tuple[Examples, PlacedTables | None]:
    """Puts examples on the devices, and index tables if they are divided among them."""
    layout, on_host = exp.layout, build.host_examples(exp.dataset)
    if not isinstance(layout, DeviceLayout) or not exp.resident:
        return layout.put(on_host), None
    tables = [shard_tables(layout.num_devices, t) for t in (*exp.train, *exp.test)]
    if examples_are_sharded(exp):
        examples, tables = _shard_examples(layout, on_host, tables)
    else:
        examples = layout.put(on_host)
    placed, train = layout.put(tuple(tables), SHARDED), len(exp.train)
    return examples, PlacedTables(placed[:train], placed[train:])


def shard_tables(devices: int, tables: Shard) -> Shard:
    """Returns index tables in the order of the devices, with empty ones as padding."""
    used = mesh.interleaved_order(len(tables.size), devices) >= 0
    index, size = mesh.interleave((tables.index, tables.size), devices)
    return Shard(index, np.where(used, size.T, 0).T.astype(np.int32))


def _shard_examples(layout: DeviceLayout, on_host: Examples, tables: Sequence[Shard]):
    """Returns the examples of each device, public ones first, and their `tables`."""
    public = np.concatenate([np.zeros(0, int), *jax.tree.leaves(on_host.public)])
    blocks = [np.split(np.asarray(t.index), layout.num_devices) for t in tables]
    pools = []
    for block in zip(*blocks, strict=True):
        needed = np.concatenate([index.ravel() for index in block])
        pools.append(np.concatenate([public, np.setdiff1d(needed, public)]))
    local_tables = [
        Shard(np.concatenate(list(map(_places, pools, block))), table.size)
        for table, block in zip(tables, blocks, strict=True)
    ]
    size = max(map(len, pools))
    rows = np.concatenate([np.resize(pool, size) for pool in pools])
    x = layout.shard_selected(on_host.x, rows)
    y = layout.shard_selected(on_host.y, rows)
    public_places = jax.tree.map(
        lambda rows: np.arange(len(rows), dtype=np.int32), on_host.public
    )
    return Examples(x, y, layout.put(public_places), on_host.shape), local_tables


def _places(pool: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Returns the positions of the rows of an index in a pool of rows."""
    order = np.argsort(pool, kind="stable")
    return order[np.searchsorted(pool, index, sorter=order)].astype(np.int32)


def describe_layout(exp: Experiment) -> str:
    """Returns one line with the number of participants on each device."""
    kind, layout = jax.devices()[0].device_kind, exp.layout
    rows = partial(mesh.rows_per_device, devices=layout.num_devices)
    cohorts = (f"{c.name} {rows(c.num_rows)} of {c.num_rows}" for c in exp.cohorts)
    counts = ", ".join(cohorts)
    return f"{layout.num_devices} devices ({kind}); participants on each: {counts}"
