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

from jaxproto import mesh
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import OFF_DEVICE
from jaxproto.mesh import REPLICATED, SHARDED, DeviceLayout
from jaxproto.types import Examples, Shard


class PlacedData(NamedTuple):
    """Data on the devices."""

    examples: Examples
    train: tuple[Shard, ...]  # index tables per cohort
    test: tuple[Shard, ...]


def examples_are_sharded(exp: Experiment) -> bool:
    """Whether each device has the examples of its own clients alone."""
    return not any(c.stateless or c.sampled for c in exp.cohorts)


def place_data(exp: Experiment) -> PlacedData:
    """Examples and tables of a run; of hosted clients, each round brings its tables."""
    data, layout = exp.dataset, exp.layout
    assert isinstance(layout, DeviceLayout)
    x: Any = build.flatten_inputs(data.x)
    y: Any = np.asarray(data.y, np.int32)
    public: Any = data.public
    every = Examples(x, y, public, data.x.shape[1:])
    if exp.store in OFF_DEVICE:
        return PlacedData(layout.put(every, REPLICATED), exp.train, exp.test)
    tables = [shard_tables(layout.num_devices, own) for own in (*exp.train, *exp.test)]
    if examples_are_sharded(exp):
        examples, tables = _divided(layout, every, tables)
    else:
        examples = layout.put(every, REPLICATED)
    there = layout.put(tuple(tables), SHARDED)
    return PlacedData(examples, there[: len(exp.train)], there[len(exp.train) :])


def shard_tables(number: int, tables: Shard) -> Shard:
    """Returns index tables, empty where there is nobody."""
    count = len(tables.size)
    used = mesh.interleaved_order(count, number) < count
    index, size = mesh.interleave((tables.index, tables.size), number)
    return Shard(index, np.where(used, size, 0).astype(np.int32))


def _divided(layout: DeviceLayout, every: Examples, tables: Sequence[Shard]):
    """The examples of each device, public ones first, and tables of their places.

    Args:
      tables: dealt, on the host.
    """
    public = np.zeros(0, int) if every.public is None else np.asarray(every.public)
    blocks = [np.split(np.asarray(t.index), layout.num_devices) for t in tables]
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
            layout.shard_selected(every.x, rows),
            layout.shard_selected(every.y, rows),
            layout.put(shown, REPLICATED),
            every.shape,
        ),
        anew,
    )


def _places(pool: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Where in a pool of rows those of an index are."""
    order = np.argsort(pool, kind="stable")
    return order[np.searchsorted(pool, index, sorter=order)].astype(np.int32)


def describe_layout(exp: Experiment) -> str:
    """One line for who reads along: how many clients each device has."""
    kind, layout = jax.devices()[0].device_kind, exp.layout
    rows = partial(mesh.rows_per_device, devices=layout.num_devices)
    each = ", ".join(
        f"{c.name} {rows(c.num_rows)} of {c.num_rows}" for c in exp.cohorts
    )
    return f"{layout.num_devices} devices ({kind}); participants on each: {each}"
