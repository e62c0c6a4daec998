"""Checkpoints of a run's whole state, `jaxproto.training.programs.State`.

A checkpoint is a folder named by its round. It holds `state`, the leaves by their path
(`jaxproto/storage/orbax_arrays.py`), and its manifest (`jaxproto/storage/manifest.py`).
It is renamed to its name when all files are on disk, and renamed away before any is
deleted, so that a killed process leaves no incomplete checkpoint under a round's name.
Checksums show other damage before orbax reads.

Networks of clients that are stateless now (`clients.store`) are ignored. Leaves below
an attribute `watched` are diagnostics of earlier rounds. A diagnostic that an older
checkpoint lacks is nan; one that the state lacks is ignored.
"""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import jax
import numpy as np

from jaxproto.core.types import Tree, is_key
from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.storage import manifest, orbax_arrays, process_shards, records

KEEP = 3  # newest checkpoints that stay
_PARTIAL = ".partial"  # suffix of a folder that is being written or deleted


class Restored(NamedTuple):
    """The newest readable checkpoint."""

    round: int
    state: Tree
    notes: list[str]  # one sentence per unusable newer checkpoint


def rounds(directory: Path) -> list[int]:
    """Returns the rounds that have a checkpoint, damaged or not, ascending.

    Raises:
      UserError: a file has the path of the folder.
    """
    if directory.exists() and not directory.is_dir():
        raise UserError(
            f"{directory} is a file, where a run has the folder of its checkpoints. "
            "Move it away, or choose another folder with --workdir."
        )
    names = (p.name for p in directory.glob("*") if p.is_dir())
    return sorted(int(name) for name in names if re.fullmatch("0|[1-9][0-9]*", name))


def no_others(folder: Path) -> Mapping[str, int]:
    """Writes no other files."""
    return {}


def save(
    directory: Path,
    round: int,
    state: Tree,
    run: Mapping = MappingProxyType({}),
    others: Callable[[Path], Mapping[str, int]] = no_others,
) -> None:
    """Writes `state` as the checkpoint of `round`; returns when it is on disk.

    Checkpoints of this and later rounds are deleted first: they were unusable, so the
    run resumed from an earlier one. Afterwards the newest `KEEP` stay.

    Args:
      directory: folder of the checkpoints of one run; made if needed.
      round: number of trained rounds.
      state: a pytree of arrays of any dtype (PRNG keys too) and numbers.
      run: settings of the run as JSON values, which `restore_latest` compares.
      others: function that writes other files into the unfinished folder: rows of
        clients that are not in the state (`storage/row_deltas.py`), or leaves for which
        the state has a `jax.ShapeDtypeStruct` (`storage/process_shards.py`). It returns
        the checksums of files that it links to.

    Raises:
      Unwritable: writing failed, for example on a full disk; older checkpoints stay.
    """
    directory = directory.resolve()
    final, folder = directory / str(round), unfinished(directory, round)
    entries, arrays = _to_host(state)
    size = sum(a.nbytes for a in arrays.values())
    later = [r for r in rounds(directory) if r >= round]
    with atomic.write_errors(final, size):
        directory.mkdir(parents=True, exist_ok=True)
        _remove_partial(directory)
        for r in reversed(later):
            _discard(directory / str(r))
        with atomic.in_progress(folder):
            folder.mkdir()
            atomic.check_free(final, size)
            try:
                if arrays:  # orbax refuses a tree without leaves
                    orbax_arrays.write(folder / "state", arrays)
                checksums = others(folder)
            except orbax_arrays.ArrayWriteError as e:
                raise atomic.Unwritable(final, size, str(e)) from e
            manifest.write(folder, round, run, entries, checksums)
            atomic.fsync_tree(folder)
            folder.rename(final)
        atomic.fsync_dir(directory)
    prune(directory, round)


def unfinished(directory: Path, round: int) -> Path:
    """Returns the folder of a checkpoint that is being written."""
    return directory / f"{round}{_PARTIAL}"


def prune(directory: Path, newest: int):
    """Removes unfinished checkpoints, and all but the last `KEEP` up to `newest`.

    Later checkpoints are unusable; they stay until the run saves again.
    """
    _remove_partial(directory)
    for r in [r for r in rounds(directory) if r <= newest][:-KEEP]:
        _discard(directory / str(r))


def restore_latest(
    directory: Path,
    like: Tree,
    run: Mapping = MappingProxyType({}),
    covered: records.Coverage = records.COMPLETE,
) -> Restored | None:
    """Reads the newest usable checkpoint; returns None if there are no checkpoints.

    Args:
      directory: folder of the checkpoints of one run.
      like: tree of the state, of arrays or `jax.ShapeDtypeStruct`. The result has numpy
        arrays and Python numbers where `like` has them, and elsewhere JAX arrays on the
        device (or with the sharding) of `like`.
      run: settings with which those of the checkpoint must agree.
      covered: last round with complete records.

    Raises:
      UserError: no checkpoint can be used, or the saved tree differs from `like`.
    """
    directory = Path(os.path.realpath(directory))  # `resolve` raises for loops
    unusable: dict[int, manifest.Unusable] = {}
    for r in reversed(rounds(directory)):
        try:
            entries = manifest.read(directory / str(r), run)
            if r > covered.until:
                raise manifest.Unusable(f"is ahead of {covered.why}")
        except manifest.Unusable as e:
            unusable[r] = e
            continue
        _check_tree(entries, like, f"of round {r} in {directory}")
        arrays = _read_arrays(directory / str(r), entries)
        notes = [
            f"the checkpoint of round {bad} in {directory} {why}; going on from the "
            f"one of round {r}."
            for bad, why in unusable.items()
        ]
        return Restored(r, _from_host(entries, arrays, like), notes)
    if unusable:
        raise _none_usable(directory, unusable)
    return None


def _none_usable(directory, unusable) -> UserError:
    """Returns the error for a folder without a usable checkpoint."""
    damaged = all(isinstance(e, manifest.Damaged) for e in unusable.values())
    begin, end = ("every", "is damaged") if damaged else ("no", "can be used")
    reasons = "; ".join(f"that of round {r} {why}" for r, why in unusable.items())
    return UserError(
        f"{begin} checkpoint in {directory} {end}: {reasons}. Nothing was deleted: put "
        "what is missing or changed back from a copy, or move the run away to start "
        "from round 0."
    )


def _remove_partial(directory):
    for folder in directory.glob(f"*{_PARTIAL}"):
        atomic.remove(folder)


def _discard(folder):
    leaving = folder.with_name(folder.name + _PARTIAL)
    folder.rename(leaving)
    shutil.rmtree(leaving)


def _to_host(state):
    """Returns the descriptions of all leaves, and path -> array on the host."""
    entries, leaves = _describe(state), {}
    for entry, leaf in zip(entries, jax.tree.leaves(state), strict=True):
        if isinstance(leaf, jax.ShapeDtypeStruct):
            continue
        if is_key(leaf):
            entry["key"] = str(jax.random.key_impl(leaf))
            leaf = jax.random.key_data(leaf)
        if _has_elements(entry):
            leaves[entry["path"]] = leaf
    arrays = map(np.asarray, jax.device_get([*leaves.values()]))
    return entries, dict(zip(leaves, arrays, strict=True))


def _has_elements(entry):
    return 0 not in entry["shape"]  # orbax refuses empty arrays


def _read_arrays(folder, entries):
    entries = [e for e in entries if _has_elements(e)]
    clients = process_shards.read(folder, entries)
    paths = [e["path"] for e in entries if e["path"] not in clients]
    return clients | (orbax_arrays.read(folder / "state", paths) if paths else {})


def _from_host(entries, arrays, like):
    by_path = {e["path"]: e for e in entries}

    def restore(path, leaf):
        return _restore_leaf(by_path.get(jax.tree_util.keystr(path)), arrays, leaf)

    return jax.tree_util.tree_map_with_path(restore, like)


def _is_of_stateless_client(path, leaves):
    """Returns whether a leaf belongs to clients that are stateless now."""
    if (i := process_shards.cohort_of_path(path)) is None:
        return False
    return not any(p.startswith(f".clients[{i}].params") for p in leaves)


def _restore_leaf(entry, arrays, like):
    """Returns one leaf as the same kind of object as `like`."""
    if entry is None:
        value = np.full(like.shape, np.nan, like.dtype)
    elif _has_elements(entry):
        value = np.asarray(arrays[entry["path"]])
    else:
        value = np.zeros(entry["shape"], jax.numpy.dtype(entry["dtype"]))
    if entry is not None and "key" in entry:
        return jax.random.wrap_key_data(value, impl=entry["key"])
    if isinstance(like, bool | int | float):
        return type(like)(value.item())
    if isinstance(like, np.ndarray | np.generic):
        return value
    committed = getattr(like, "committed", True)
    return jax.device_put(value, getattr(like, "sharding", None) if committed else None)


def _describe(tree):
    """Returns path, shape and type of every leaf."""

    def one(path, leaf):
        dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
        name, shape = jax.tree_util.keystr(path), list(np.shape(leaf))
        return {"path": name, "shape": shape, "dtype": str(dtype)}

    return [one(*pair) for pair in jax.tree_util.tree_leaves_with_path(tree)]


def _check_tree(entries, like, which):
    """Raises UserError naming the first leaf that differs, and both shapes."""
    saved, expected = (
        {leaf["path"]: f"{leaf['dtype']}{leaf['shape']}" for leaf in leaves}
        for leaves in (entries, _describe(like))
    )
    for path in {**expected, **saved}:
        a, b = saved.get(path, "absent"), expected.get(path, "absent")
        ignored = "absent" in (a, b) and ".watched[" in path
        if a != b and not ignored and not _is_of_stateless_client(path, expected):
            raise UserError(
                f"the checkpoint {which} is not of this run: leaf {path} is {a} there "
                f"and {b} here. Choose another folder with --workdir, or give the "
                "values that it was started with."
            )
