"""Checkpoints of the complete state of a run.

A checkpoint is a folder named by its round. It holds `state`, the leaves by their path
(`arrays.py`), and its manifest (`manifest.py`). The folder is renamed to its final name
when all of it is on disk, and renamed away before anything is deleted, so that a killed
process leaves no partial checkpoint under the name of a round. Checksums show other
damage before orbax reads.

Saved networks of clients that are stateless now (`clients.store`) are ignored. Leaves
below an attribute `watched` are diagnostics that no later round depends on: one that an
older checkpoint lacks is nan, and one that the state does not have is ignored.
"""

import errno
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.storage import manifest, process_shards, records, row_deltas
from jaxproto.storage import orbax_arrays as arrays_
from jaxproto.types import Tree

KEEP = 3  # newest checkpoints that are not deleted
_PARTIAL = ".partial"  # suffix of a folder that is being written or deleted


class Restored(NamedTuple):
    """State of the newest usable checkpoint."""

    round: int
    state: Tree
    notes: list[str]  # one sentence per newer checkpoint that is unusable


def rounds(directory: str | Path) -> list[int]:
    """Returns the rounds that have a checkpoint, damaged or not, ascending.

    Raises:
      UserError: the path is a file.
    """
    directory = Path(directory)
    if directory.exists() and not directory.is_dir():
        raise UserError(
            f"{directory} is a file, where a run has the folder of its checkpoints. "
            "Move it away, or choose another folder with --workdir."
        )
    names = (p.name for p in directory.glob("*") if p.is_dir())
    return sorted(int(name) for name in names if re.fullmatch("0|[1-9][0-9]*", name))


def save(
    directory: str | Path,
    round: int,
    state: Tree,
    run: Mapping | None = None,
    rows: row_deltas.RowDelta | None = None,
    others: Callable[[Path], object] | None = None,
) -> None:
    """Writes `state` as the checkpoint of `round`; returns when it is on disk.

    Checkpoints of this and later rounds are deleted first: they were unusable, so that
    the run resumed from an earlier one. Of the others the newest stay.

    Args:
      directory: of the checkpoints of one run; created if absent.
      round: number of rounds that the state has trained.
      state: a pytree of arrays of any dtype (PRNG keys too) and numbers.
      run: settings of the run, as JSON values, which `restore_latest` compares.
      rows: of clients that are not in the state; see `storage/row_deltas.py`.
      others: folder -> writes the leaves for which the state has a
        `jax.ShapeDtypeStruct`; see `storage/process_shards.py`.

    Raises:
      Unwritable: the disk is full or not writable; older checkpoints stay.
    """
    directory = Path(directory).resolve()
    entries, arrays = _to_host(state)
    size = sum(a.nbytes for a in arrays.values())
    later = [r for r in rounds(directory) if r >= round]
    with atomic.write_errors(directory / str(round), size):
        directory.mkdir(parents=True, exist_ok=True)
        _sweep_partial(directory)
        for r in reversed(later):
            _discard(directory / str(r))
        folder = unfinished(directory, round)
        with atomic.in_progress(folder):
            about = manifest.Manifest(round, run, entries)
            _write(folder, about, arrays, size, rows, others)
        atomic.fsync_dir(directory)
    prune(directory, round)


def unfinished(directory: Path, round: int) -> Path:
    """Returns the temporary folder of a checkpoint that is being written."""
    return directory / f"{round}{_PARTIAL}"


def _write(folder: Path, about: manifest.Manifest, arrays, size: int, rows, others):
    """Writes a checkpoint to its temporary folder and renames that."""
    final = folder.with_name(str(about.round))
    before = folder.with_name(str(rows.since)) if rows else None
    before = before if before is not None and before.is_dir() else None
    folder.mkdir()
    if shutil.disk_usage(folder).free < size:
        raise atomic.Unwritable(final, size, os.strerror(errno.ENOSPC))
    try:
        if arrays:  # orbax refuses a tree without leaves
            arrays_.write(folder / "state", arrays)
        if rows is not None:
            size += row_deltas.write(folder, before, about.round, rows)
        if others is not None:
            (folder / process_shards.FOLDER).mkdir()
            others(folder)
    except arrays_.ArrayWriteError as e:
        raise atomic.Unwritable(final, size, str(e)) from e
    manifest.write(folder, about, before)
    atomic.fsync_tree(folder)
    folder.rename(final)


def prune(directory: str | Path, newest: int):
    """Removes partial checkpoints, and all but the newest complete ones.

    Checkpoints of rounds after `newest` stay: they are unusable, and deleted when the
    run saves again.
    """
    directory = Path(directory)
    _sweep_partial(directory)
    for r in [r for r in rounds(directory) if r <= newest][:-KEEP]:
        _discard(directory / str(r))


def restore_latest(
    directory: str | Path,
    like: Tree,
    run: Mapping | None = None,
    covered: records.Coverage | None = None,
) -> Restored | None:
    """Reads the newest usable checkpoint; None if there is none at all.

    Args:
      directory: as of `save`.
      like: tree of the state, of arrays or `jax.ShapeDtypeStruct`. The result has numpy
        arrays and Python numbers where `like` has them, elsewhere JAX arrays on the
        device (or with the sharding) of `like`.
      run: settings that those of the checkpoint must equal.
      covered: round up to which records are complete; None checks nothing.

    Raises:
      UserError: no checkpoint is usable, or its tree is not that of `like`.
    """
    directory = Path(directory).resolve()
    passed: dict[int, manifest.Unusable] = {}
    for r in reversed(rounds(directory)):
        try:
            entries = manifest.read(directory / str(r), run)
            if covered is not None and r > covered.until:
                raise manifest.Unusable(f"is ahead of {covered.why}")
        except manifest.Unusable as e:
            passed[r] = e
            continue
        _check(entries, like, f"of round {r} in {directory}")
        arrays = _read_arrays(directory / str(r), entries)
        notes = [
            f"the checkpoint of round {bad} in {directory} {why}; going on from the "
            f"one of round {r}."
            for bad, why in passed.items()
        ]
        return Restored(r, _from_host(entries, arrays, like), notes)
    if passed:
        raise _none(directory, passed)
    return None


def _none(directory, passed) -> UserError:
    """Returns the error for checkpoints of which none is usable."""
    damaged = all(isinstance(e, manifest.Damaged) for e in passed.values())
    which = "every checkpoint" if damaged else "no checkpoint"
    is_so = "is damaged" if damaged else "can be used"
    whys = "; ".join(f"that of round {r} {why}" for r, why in passed.items())
    return UserError(
        f"{which} in {directory} {is_so}: {whys}. Nothing was deleted: put what is "
        "missing back from a copy of the run, or move it away to start from round 0."
    )


def _sweep_partial(directory):
    for left_by_a_kill in directory.glob(f"*{_PARTIAL}"):
        atomic.remove(left_by_a_kill)


def _discard(folder):
    leaving = folder.with_name(folder.name + _PARTIAL)
    folder.rename(leaving)
    shutil.rmtree(leaving)


def _to_host(state):
    """Returns an entry of the manifest per leaf, and the arrays to save by path."""
    entries, saved, leaves = [], [], []
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        entries.append({"path": jax.tree_util.keystr(path), **_describe(leaf)})
        if isinstance(leaf, jax.ShapeDtypeStruct):
            continue
        saved.append(entries[-1])
        if _is_key(leaf):
            entries[-1]["key"] = str(jax.random.key_impl(leaf))
            leaf = jax.random.key_data(leaf)
        leaves.append(leaf)
    rows = zip(saved, jax.device_get(leaves), strict=True)
    return entries, {e["path"]: np.asarray(a) for e, a in rows if _has_elements(e)}


def _has_elements(entry):
    return 0 not in entry["shape"]  # orbax refuses the others


def _read_arrays(folder, entries):
    entries = [e for e in entries if _has_elements(e)]
    clients = (
        process_shards.read(folder, entries)
        if process_shards.has_process_shards(folder)
        else {}
    )
    paths = [e["path"] for e in entries if e["path"] not in clients]
    return clients | (arrays_.read(folder / "state", paths) if paths else {})


def _from_host(entries, arrays, like):
    by_path = {e["path"]: e for e in entries}

    def one(path, leaf):
        return _leaf(by_path.get(jax.tree_util.keystr(path)), arrays, leaf)

    return jax.tree_util.tree_map_with_path(one, like)


def _is_watched(path):
    return ".watched[" in path


def _is_forgotten(path, paths):
    """Returns whether a leaf is of clients that are stateless now."""
    cohort = re.match(r"\.clients\[\d+\]\.", path)
    return cohort is not None and not any(
        p.startswith(f"{cohort[0]}params") for p in paths
    )


def _leaf(entry, arrays, like):
    """Returns one leaf in the type of its counterpart in `like`."""
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
    free = not getattr(like, "committed", True)
    return jax.device_put(value, None if free else getattr(like, "sharding", None))


def _describe(leaf):
    dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    return {"shape": list(np.shape(leaf)), "dtype": str(dtype)}


def _is_key(leaf):
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def _check(entries, like, which):
    """Raises UserError naming the first leaf that differs, and both shapes."""
    saved = {e["path"]: f"{e['dtype']}{e['shape']}" for e in entries}
    wanted = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(like):
        e = _describe(leaf)
        wanted[jax.tree_util.keystr(path)] = f"{e['dtype']}{e['shape']}"
    for path in {**wanted, **saved}:
        a, b = saved.get(path, "absent"), wanted.get(path, "absent")
        spare = "absent" in (a, b) and _is_watched(path)
        if a != b and not spare and not _is_forgotten(path, wanted):
            raise UserError(
                f"the checkpoint {which} is not of this run: leaf {path} is {a} there "
                f"and {b} here. Choose another folder with --workdir, or give the "
                "values that it was started with."
            )
