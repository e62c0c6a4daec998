"""Clients over several devices: who is where, and what moves between them.

The rows of a cohort are dealt to the devices of a `DeviceLayout` one by one. As they
stand in the order of local steps, all devices have about the same work. `n` rows become
`[devices * width]`, those of a device together, with rows of nobody where there are
fewer. Local training moves nothing between devices; `all_gather_rows` gathers what the
server is to have, `redistribute` and `scatter_back` bring participants to where they
train, and back.

Rows move as bits, so numbers do not depend on where a client is.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jaxproto.errors import UserError
from jaxproto.types import Array, ArrayLike, Tree

AXIS = "devices"
SHARDED = PartitionSpec(AXIS)  # the leading axis has clients
REPLICATED = PartitionSpec()


class OneDevice:
    """The device that JAX uses by itself: it has all rows, in their order."""

    num_devices: int = 1

    def shard_rows(self, tree: Tree) -> Tree:
        """Puts arrays [n, ...] of the host on the device."""
        return jax.device_put(tree)

    def shard_ids(self, id_K: ArrayLike, nobody: int) -> Array:
        """Puts ids of clients [K] on the device."""
        del nobody
        return jnp.asarray(id_K, jnp.int32)

    def put(self, tree: Tree, spec: PartitionSpec) -> Tree:
        """Puts arrays on the device."""
        del spec
        return jax.device_put(tree)


ONE = OneDevice()


@dataclasses.dataclass(frozen=True)
class DeviceLayout(OneDevice):
    """Several devices in a row."""

    mesh: Mesh

    @property
    def num_devices(self) -> int:  # type: ignore[override]
        """Devices."""
        return self.mesh.size

    def sharding(self, spec: PartitionSpec) -> NamedSharding:
        """Of arrays that are laid out by `spec`."""
        return NamedSharding(self.mesh, spec)

    def shard_rows(self, tree: Tree) -> Tree:
        """Arrays [n, ...] of the host on the devices, [devices * width, ...]."""
        return self.put(interleave(tree, self.num_devices), SHARDED)

    def shard_ids(self, id_K: ArrayLike, nobody: int) -> Array:
        """Ids of clients [K] on the devices; `nobody` where there is none."""
        ids = np.append(np.asarray(id_K), nobody).astype(np.int32)
        places = interleaved_order(len(id_K), self.num_devices)
        return self.put(ids[np.minimum(places, len(id_K))], SHARDED)

    def put(self, tree: Tree, spec: PartitionSpec) -> Tree:
        """Arrays that every process has, on the devices."""
        where = self.sharding(spec)

        def one(a):
            if _is_key(a):
                data = one(jax.random.key_data(a))
                return jax.random.wrap_key_data(data, impl=jax.random.key_impl(a))
            a = np.asarray(a)
            return jax.make_array_from_callback(a.shape, where, lambda at: a[at])

        return jax.tree.map(one, tree)

    def shard_selected(self, array: ArrayLike, rows: np.ndarray) -> Array:
        """Rows of an array of the host; each device gets its part of `rows`."""
        shape, where = (len(rows), *array.shape[1:]), self.sharding(SHARDED)

        def part(at: Any) -> np.ndarray:
            return np.asarray(array[rows[at[0]]])

        return jax.make_array_from_callback(shape, where, part)


def parse_devices(which: str) -> OneDevice:
    """Returns the devices of `--devices`, a `DeviceLayout` if they are several.

    Args:
      which: "all", a number of devices, or their places in `jax.devices()`, such as
        "0,2"; "" is all but on CPU, where one program uses all cores.

    Raises:
      UserError: there are none of these.
    """
    there = jax.devices()
    if not which:
        alone = there[0].platform == "cpu" and jax.process_count() == 1
        which = "1" if alone else "all"
    if which != "all" and jax.process_count() > 1:
        raise UserError(
            f"--devices={which}, but a run by several processes has all devices of "
            "each; leave it out."
        )
    words = [str(i) for i in range(len(there))] if which == "all" else which.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise UserError(
            f"--devices={which} names no devices; it is all, a number such as 4, or "
            "places from 0 such as 0,2."
        )
    places = [int(word) for word in words]
    if which != "all" and len(places) == 1:
        places = list(range(places[0]))
    wrong = [i for i in places if i >= len(there)]
    if wrong or not places or len({*places}) < len(places):
        names = ", ".join(map(str, there))
        raise UserError(
            f"--devices={which}, but JAX has {len(there)} here, each to be named once: "
            f"{names}."
        )
    several = DeviceLayout(Mesh(np.array([there[i] for i in places]), (AXIS,)))
    return several if len(places) > 1 else ONE


def rows_per_device(count: int, devices: int) -> int:
    """Rows of each device."""
    return -(-count // devices)


def interleaved_order(count: int, devices: int) -> np.ndarray:
    """The row that stands in each place; `count` and more is nobody."""
    return (
        np.arange(rows_per_device(count, devices) * devices)
        .reshape(-1, devices)
        .T.ravel()
    )


def interleave(tree: Tree, devices: int) -> Tree:
    """Arrays [n, ...] as [devices * width, ...]; the last row stands for nobody."""

    def one(a):
        a = np.asarray(a)
        return a[np.minimum(interleaved_order(len(a), devices), len(a) - 1)]

    return jax.tree.map(one, tree)


def deinterleave(tree: Tree, count: int, devices: int) -> Tree:
    """Arrays [devices * width, ...] of the host as [count, ...]."""

    def one(a):
        a = np.asarray(a)
        parts = a.reshape(devices, len(a) // devices, *a.shape[1:])
        return parts.swapaxes(0, 1).reshape(a.shape)

    return jax.tree.map(lambda a: one(a)[:count], tree)


def to_host(tree: Tree) -> Tree:
    """Arrays as numpy has them, in every process."""
    arrays = [a for a in jax.tree.leaves(tree) if isinstance(a, jax.Array)]
    if all(a.is_fully_addressable for a in arrays):
        return jax.device_get(tree)
    return jax.tree.map(np.asarray, multihost_utils.process_allgather(tree, tiled=True))


# Inside of a program that runs on every device


def all_gather_rows(tree: Tree) -> Tree:
    """Rows [width, ...] of each device as [width * devices, ...], in their order."""

    def one(a):
        all_ = lax.all_gather(_bits(a), AXIS, axis=1)
        return _of_bits(all_.reshape(-1, *all_.shape[2:]), a)

    return jax.tree.map(one, tree)


def redistribute(tree: Tree, at_R: Array) -> Tree:
    """Rows of all devices, dealt anew: [width, ...] -> [R / devices, ...].

    Args:
      at_R: row in the order of `all_gather_rows` for each of the new rows; one that
        there is not gives zeros.
    """
    here, row, number = *_home(at_R), lax.axis_size(AXIS)

    def one(a):
        bits = _bits(a)
        mine = here.reshape(-1, *[1] * (bits.ndim - 1))
        found = jnp.where(mine, bits.at[row].get(mode="clip"), 0)
        found = found.reshape(-1, number, *bits.shape[1:])
        moved = lax.psum_scatter(found, AXIS, scatter_dimension=1, tiled=False)
        return _of_bits(moved, a)

    return jax.tree.map(one, tree)


def scatter_back(tree: Tree, at_R: Array, new: Tree) -> Tree:
    """Rows [width, ...] with those that were fetched, `new`, back in their places."""
    here, row = _home(at_R)

    def one(a, b):
        return a.at[jnp.where(here, row, len(a))].set(b, mode="drop")

    return jax.tree.map(one, tree, all_gather_rows(new))


def _home(at_R: Array) -> tuple[Array, Array]:
    """Whether rows are on this device, and where."""
    number = lax.axis_size(AXIS)
    return at_R % number == lax.axis_index(AXIS), at_R // number


def _bits(a: Array) -> Array:
    """An array as whole numbers, of which sums with zeros are exact."""
    if _is_key(a):
        return jax.random.key_data(a)
    if a.dtype == bool:
        return a.astype(jnp.uint8)
    if jnp.issubdtype(a.dtype, jnp.floating):
        return lax.bitcast_convert_type(a, f"uint{8 * a.dtype.itemsize}")
    return a


def _is_key(a) -> bool:
    dtype = getattr(a, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def _of_bits(bits: Array, like: Array) -> Array:
    if _is_key(like):
        return jax.random.wrap_key_data(bits, impl=jax.random.key_impl(like))
    if like.dtype == bool:
        return bits.astype(bool)
    if jnp.issubdtype(like.dtype, jnp.floating):
        return lax.bitcast_convert_type(bits, like.dtype)
    return bits
