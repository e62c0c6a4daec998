"""Placement of clients on several devices, and the transfers between devices.

The rows of a cohort are dealt to the devices of a `DeviceLayout` one by one. Rows are
sorted by local steps, so that all devices have about the same work. `n` rows become
`[devices
* width]`, those of a device together, padded with unused rows. Local training moves
nothing between devices; `all_gather_rows` gathers uploads for the server,
`redistribute` and `scatter_back` move participants to the devices that train them, and
back.

Rows are moved as bits, so that results do not depend on the placement.
"""

from typing import Any, NamedTuple

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


class DeviceLayout(NamedTuple):
    """Mesh of several devices in one axis."""

    mesh: Mesh

    @property
    def num_devices(self) -> int:
        """Number of devices."""
        return self.mesh.size

    def sharding(self, spec: PartitionSpec) -> NamedSharding:
        """Returns the sharding of arrays by `spec`."""
        return NamedSharding(self.mesh, spec)

    def shard_rows(self, tree: Tree) -> Tree:
        """Puts arrays [n, ...] of the host on the devices, [devices * width, ...]."""
        return self.put(interleave(tree, self.num_devices), SHARDED)

    def shard_ids(self, id_K: ArrayLike, nobody: int) -> Array:
        """Puts client ids [K] on the devices; unused rows get the id `nobody`."""
        ids = np.append(np.asarray(id_K), nobody).astype(np.int32)
        places = interleaved_order(len(id_K), self.num_devices)
        return self.put(ids[np.minimum(places, len(id_K))], SHARDED)

    def put(self, tree: Tree, spec: PartitionSpec) -> Tree:
        """Puts arrays that every process has on the devices."""
        where = self.sharding(spec)

        def one(a):
            if _is_key(a):
                data = one(jax.random.key_data(a))
                return jax.random.wrap_key_data(data, impl=jax.random.key_impl(a))
            a = np.asarray(a)
            return jax.make_array_from_callback(a.shape, where, lambda at: a[at])

        return jax.tree.map(one, tree)

    def shard_selected(self, array: ArrayLike, rows: np.ndarray) -> Array:
        """Puts rows of an array of the host on the devices, each its part of `rows`."""
        shape, where = (len(rows), *array.shape[1:]), self.sharding(SHARDED)

        def part(at: Any) -> np.ndarray:
            return np.asarray(array[rows[at[0]]])

        return jax.make_array_from_callback(shape, where, part)


def make_layout(devices: list[jax.Device]) -> DeviceLayout:
    """Returns the layout of some devices."""
    return DeviceLayout(Mesh(np.array(devices), (AXIS,)))


def parse_devices(which: str) -> DeviceLayout | None:
    """Returns the devices of `--devices`; None is the first device alone.

    Args:
      which: "all", a number of devices, or their places in `jax.devices()`, such as
        "0,2"; "" is all, on CPU the first, whose programs use all cores.

    Raises:
      UserError: there are no such devices.
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
    return make_layout([there[i] for i in places]) if len(places) > 1 else None


def rows_per_device(count: int, devices: int) -> int:
    """Returns the number of rows per device, padding included."""
    return -(-count // devices)


def interleaved_order(count: int, devices: int) -> np.ndarray:
    """Returns the row in each place; `count` and more mark unused places."""
    return (
        np.arange(rows_per_device(count, devices) * devices)
        .reshape(-1, devices)
        .T.ravel()
    )


def interleave(tree: Tree, devices: int) -> Tree:
    """Deals arrays [n, ...] to [devices * width, ...]; pads with the last row."""

    def one(a):
        a = np.asarray(a)
        return a[np.minimum(interleaved_order(len(a), devices), len(a) - 1)]

    return jax.tree.map(one, tree)


def deinterleave(tree: Tree, count: int, devices: int) -> Tree:
    """Reverts `interleave` on the host: [devices * width, ...] to [count, ...]."""

    def one(a):
        a = np.asarray(a)
        return a.reshape(devices, -1, *a.shape[1:]).swapaxes(0, 1).reshape(a.shape)

    return jax.tree.map(lambda a: one(a)[:count], tree)


def to_host(tree: Tree) -> Tree:
    """Copies arrays to the host as numpy arrays, in every process."""
    arrays = [a for a in jax.tree.leaves(tree) if isinstance(a, jax.Array)]
    if all(a.is_fully_addressable for a in arrays):
        return jax.device_get(tree)
    return jax.tree.map(np.asarray, multihost_utils.process_allgather(tree, tiled=True))


# Inside of a program that runs on every device


def all_gather_rows(tree: Tree) -> Tree:
    """Gathers rows [width, ...] of all devices to [width * devices, ...], in order."""

    def one(a):
        all_ = lax.all_gather(_bits(a), AXIS, axis=1)
        return _of_bits(all_.reshape(-1, *all_.shape[2:]), a)

    return jax.tree.map(one, tree)


def redistribute(tree: Tree, at_R: Array) -> Tree:
    """Fetches rows of all devices: [width, ...] -> [R / devices, ...].

    Args:
      tree: arrays [width, ...] of each device.
      at_R: source of each new row, in the order of `all_gather_rows`; an invalid one
        gives zeros.
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
    """Puts fetched rows, `new`, back in their places among rows [width, ...]."""
    here, row = _home(at_R)

    def one(a, b):
        return a.at[jnp.where(here, row, len(a))].set(b, mode="drop")

    return jax.tree.map(one, tree, all_gather_rows(new))


def _home(at_R: Array) -> tuple[Array, Array]:
    """Returns whether rows are on this device, and their places."""
    number = lax.axis_size(AXIS)
    return at_R % number == lax.axis_index(AXIS), at_R // number


def _bits(a: Array) -> Array:
    """Casts an array to integers, whose sums with zeros are exact."""
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
