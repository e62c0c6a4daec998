"""Layout of clients over several devices, and transfers between devices.

The rows of a cohort are assigned to the devices of a `DeviceLayout` in turn. Rows are
in the order of local steps, so all devices have about the same work. `n` rows become
`[devices * width]`, the rows of a device side by side, padded with rows of no client.
Local training moves nothing between devices. `all_gather_rows` gathers uploads for the
server; `redistribute` and `scatter_back` move participants to the devices that train
them, and back.

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

from jaxproto.core.types import Array, ArrayLike, Tree, is_key
from jaxproto.errors import UserError

AXIS = "devices"
SHARDED = PartitionSpec(AXIS)  # the leading axis is that of clients
REPLICATED = PartitionSpec()


class OneDevice:
    """The default device of JAX, which has all rows in their order."""

    num_devices: int = 1

    def shard_rows(self, tree: Tree) -> Tree:
        """Puts arrays [n, ...] of the host on the device."""
        return jax.device_put(tree)

    def shard_ids(self, id_K: ArrayLike, unused_id: int) -> Array:
        """Puts ids of clients [K] on the device."""
        return jnp.asarray(id_K, jnp.int32)

    def put(self, tree: Tree, spec: PartitionSpec = REPLICATED) -> Tree:
        """Puts arrays of the host on the device."""
        return jax.device_put(tree)


ONE = OneDevice()


@dataclasses.dataclass(frozen=True)
class DeviceLayout(OneDevice):
    """Several devices along one axis."""

    mesh: Mesh

    @property
    def num_devices(self) -> int:  # type: ignore[override]
        """Returns the number of devices."""
        return self.mesh.size

    def sharding(self, spec: PartitionSpec) -> NamedSharding:
        """Returns the sharding of arrays that are laid out by `spec`."""
        return NamedSharding(self.mesh, spec)

    def shard_rows(self, tree: Tree) -> Tree:
        """Puts arrays [n, ...] of the host on the devices, [devices * width, ...]."""
        return self.put(interleave(tree, self.num_devices), SHARDED)

    def shard_ids(self, id_K: ArrayLike, unused_id: int) -> Array:
        """Puts ids of clients [K] on the devices; padding gets `unused_id`."""
        ids = np.append(np.asarray(id_K), unused_id).astype(np.int32)
        return self.put(ids[interleaved_order(len(id_K), self.num_devices)], SHARDED)

    def put(self, tree: Tree, spec: PartitionSpec = REPLICATED) -> Tree:
        """Puts arrays that every process has on the devices, by default on each."""
        sharding = self.sharding(spec)

        def one(a):
            if is_key(a):
                data = one(jax.random.key_data(a))
                return jax.random.wrap_key_data(data, impl=jax.random.key_impl(a))
            a = np.asarray(a)
            return jax.make_array_from_callback(
                a.shape, sharding, lambda index: a[index]
            )

        return jax.tree.map(one, tree)

    def shard_selected(self, array: ArrayLike, rows: np.ndarray) -> Array:
        """Puts selected rows of an array of the host on the devices, in equal parts."""

        def part(index: Any) -> np.ndarray:
            return np.asarray(array[rows[index[0]]])

        shape = len(rows), *array.shape[1:]
        return jax.make_array_from_callback(shape, self.sharding(SHARDED), part)


def available_devices() -> list[jax.Device]:
    """Returns the devices of JAX.

    Raises:
      UserError: JAX_PLATFORMS names a platform that JAX does not find.
    """
    try:
        return jax.devices()
    except (RuntimeError, AssertionError) as e:
        asked = jax.config.jax_platforms  # type: ignore[attr-defined]
        raise UserError(
            f"JAX_PLATFORMS={asked}, but JAX finds no such device here. For a GPU or "
            "TPU install jaxproto[cuda12], jaxproto[cuda13] or jaxproto[tpu]; on a CPU "
            "leave JAX_PLATFORMS out."
        ) from e


def parse_devices(which: str) -> OneDevice:
    """Returns the devices of `--devices`, a `DeviceLayout` if there are several.

    Args:
      which: "all", a number of devices, or their indices in `jax.devices()`, such as
        "0,2"; "" is one on CPU, where one program uses all cores, else all.

    Raises:
      UserError: The devices do not exist, or `which` cannot be parsed.
    """
    devices = available_devices()
    count = len(devices)
    if not which:
        cpu = devices[0].platform == "cpu" and jax.process_count() == 1
        which = "1" if cpu else "all"
    if which != "all" and jax.process_count() > 1:
        raise UserError(
            f"--devices={which}, but a run by several processes has all devices of "
            "each; leave it out."
        )
    words = [str(i) for i in range(count)] if which == "all" else f"{which}".split(",")
    if not all(word.strip().isascii() and word.strip().isdecimal() for word in words):
        raise UserError(
            f"--devices={which} names no devices; it is all, a number such as 4, or "
            "places from 0 such as 0,2."
        )
    places = [int(word) for word in words]
    if which != "all" and len(places) == 1:
        places = list(range(places[0]))
    wrong = [i for i in places if i >= count]
    if wrong or not places or len({*places}) < len(places):
        names = ", ".join(map(str, devices))
        raise UserError(
            f"--devices={which}, but JAX has {count} here, each to be named once: "
            f"{names}."
        )
    if len(places) == 1:
        return ONE
    return DeviceLayout(Mesh(np.array([devices[i] for i in places]), (AXIS,)))


def rows_per_device(count: int, devices: int) -> int:
    """Returns the number of rows that each device holds, padding included."""
    return -(-count // devices)


def interleaved_order(count: int, devices: int) -> np.ndarray:
    """Returns the row at each place of the devices, or of calls; -1 for padding."""
    rows = np.arange(rows_per_device(count, devices) * devices)
    return np.where(rows < count, rows, -1).reshape(-1, devices).T.ravel()


def interleave(tree: Tree, devices: int) -> Tree:
    """Arranges arrays [n, ...] as [devices * width, ...], padded with the last row."""

    def one(a):
        a = np.asarray(a)
        return a[interleaved_order(len(a), devices)]

    return jax.tree.map(one, tree)


def deinterleave(tree: Tree, count: int, devices: int) -> Tree:
    """Arranges arrays [devices * width, ...] of the host as [count, ...]."""

    def one(a):
        a = np.asarray(a)
        parts = a.reshape(devices, len(a) // devices, *a.shape[1:])
        return parts.swapaxes(0, 1).reshape(a.shape)

    return jax.tree.map(lambda a: one(a)[:count], tree)


def to_host(tree: Tree) -> Tree:
    """Returns arrays of the devices as numpy arrays, in every process."""
    arrays = [a for a in jax.tree.leaves(tree) if isinstance(a, jax.Array)]
    if all(a.is_fully_addressable for a in arrays):
        return jax.device_get(tree)
    return jax.tree.map(np.asarray, multihost_utils.process_allgather(tree, tiled=True))


# Functions for use inside of a program that runs on every device


def all_gather_rows(tree: Tree) -> Tree:
    """Gathers rows [width, ...] of all devices as [width * devices, ...], in order."""

    def one(a):
        bits = lax.all_gather(_bits(a), AXIS, axis=1)
        return _of_bits(bits.reshape(-1, *bits.shape[2:]), a)

    return jax.tree.map(one, tree)


def redistribute(tree: Tree, row_R: Array) -> Tree:
    """Moves selected rows to the devices in turn: [width, ...] -> [R / devices, ...].

    Args:
      row_R: Index of each new row in the order of `all_gather_rows`, or padding,
        which gives arbitrary values.
    """
    local, row = _local_rows(row_R)

    def one(a):
        bits = _bits(a)
        mask = local.reshape(-1, *[1] * (bits.ndim - 1))
        part = jnp.where(mask, bits.at[row].get(mode="clip"), 0)
        part = part.reshape(-1, lax.axis_size(AXIS), *bits.shape[1:])
        moved = lax.psum_scatter(part, AXIS, scatter_dimension=1, tiled=False)
        return _of_bits(moved, a)

    return jax.tree.map(one, tree)


def scatter_back(tree: Tree, row_R: Array, new: Tree) -> Tree:
    """Returns rows [width, ...] with the rows `new` that `redistribute` moved away."""
    local, row = _local_rows(row_R)

    def one(a, b):
        return a.at[jnp.where(local, row, len(a))].set(b, mode="drop")

    return jax.tree.map(one, tree, all_gather_rows(new))


def _local_rows(row_R: Array) -> tuple[Array, Array]:
    """Returns whether rows are on this device, and their indices on it."""
    devices = lax.axis_size(AXIS)
    return row_R % devices == lax.axis_index(AXIS), row_R // devices


def _bits(a: Array) -> Array:
    """Returns an array as integers, so that sums with zeros are exact."""
    if is_key(a):
        return jax.random.key_data(a)
    if a.dtype == bool:
        return a.astype(jnp.uint8)
    if jnp.issubdtype(a.dtype, jnp.floating):
        return lax.bitcast_convert_type(a, f"uint{8 * a.dtype.itemsize}")
    return a


def _of_bits(bits: Array, like: Array) -> Array:
    if is_key(like):
        return jax.random.wrap_key_data(bits, impl=jax.random.key_impl(like))
    if like.dtype == bool:
        return bits.astype(bool)
    if jnp.issubdtype(like.dtype, jnp.floating):
        return lax.bitcast_convert_type(bits, like.dtype)
    return bits
