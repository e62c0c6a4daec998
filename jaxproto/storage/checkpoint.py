"""Checkpoints of a run's whole state; the only file that knows orbax.

A checkpoint is a folder named by its round. It holds `state`, an orbax checkpoint of
the leaves by their path, and `manifest.json`: path, shape and dtype of every leaf,
CRC-32 of every file. It gets its name in one rename when all of it is written and loses
it in one rename before anything is deleted, so a process killed at any moment leaves no
half checkpoint under a round's name. Other damage shows in the checksums, before orbax
reads (it meets damage with a traceback per leaf on stderr, from its own threads).

Leaves below an attribute `watched` say what was seen of rounds, and nothing follows
from them: where a checkpoint, of an older version, lacks one it is nan, and one that
the state has no place for is passed over.
"""

import contextlib
import json
import shutil
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
import orbax.checkpoint as ocp
from absl import logging

from jaxproto.errors import UserError
from jaxproto.types import Tree

_PARTIAL = ".partial"  # ending of a folder that is on its way in or out
_CHUNK = 1 << 24  # bytes of a file in memory at a time


class Restored(NamedTuple):
    """The newest readable checkpoint."""

    round: int
    state: Tree
    notes: list[str]  # one sentence per damaged checkpoint that was passed over


def rounds(directory: str | Path) -> list[int]:
    """The rounds that have a checkpoint, damaged or not, in ascending order."""
    folders = (p for p in Path(directory).glob("*") if p.is_dir())
    return sorted(int(p.name) for p in folders if p.name.isdecimal())


def save(directory: str | Path, round: int, state: Tree, keep: int = 3):
    """Writes `state` as the checkpoint of `round`; returns when it is written.

    Checkpoints of this and later rounds are dropped first: the run went back behind
    them, because they were damaged.

    Args:
      directory: holds the checkpoints of one run; made if need be.
      round: rounds behind the state.
      state: a pytree of arrays of any dtype (PRNG keys too) and numbers.
      keep: checkpoints that stay, the newest ones.
    """
    directory = Path(directory).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    for left_by_a_kill in directory.glob(f"*{_PARTIAL}"):
        shutil.rmtree(left_by_a_kill)
    for r in reversed(rounds(directory)):
        if r >= round:
            _discard(directory / str(r))
    folder = directory / f"{round}{_PARTIAL}"
    folder.mkdir()
    entries, arrays = _to_host(state)
    if arrays:  # orbax refuses a tree without leaves
        with _orbax() as checkpointer:
            checkpointer.save(folder / "state", args=ocp.args.PyTreeSave(arrays))
    _write_manifest(folder, entries)
    folder.rename(directory / str(round))
    for r in rounds(directory)[:-keep]:
        _discard(directory / str(r))


def latest(directory: str | Path, like: Tree) -> Restored | None:
    """Reads the newest checkpoint that is whole; None if there is none at all.

    Args:
      directory: as given to `save`.
      like: the state's tree, of arrays or `jax.ShapeDtypeStruct`. Where it has numpy
        arrays or Python numbers so has the result, elsewhere JAX arrays on the device
        (or with the sharding) of `like`.

    Raises:
      UserError: no checkpoint can be read, or the tree is not the one saved.
    """
    directory, damaged = Path(directory).resolve(), {}
    for r in reversed(rounds(directory)):
        try:
            entries = _read_manifest(directory / str(r))
        except (_Damaged, OSError) as e:
            damaged[r] = str(e)
            continue
        _check(entries, like, f"of round {r} in {directory}")
        arrays = _read_arrays(directory / str(r), entries)
        notes = [
            f"the checkpoint of round {bad} in {directory} is damaged ({why}); going "
            f"on from the one of round {r}."
            for bad, why in damaged.items()
        ]
        return Restored(r, _from_host(entries, arrays, like), notes)
    if damaged:
        reasons = "; ".join(f"round {r}: {why}" for r, why in damaged.items())
        raise UserError(
            f"every checkpoint in {directory} is damaged ({reasons}). Nothing was "
            "deleted: put back a copy of that folder, or move it away to start from "
            "round 0."
        )
    return None


def _discard(folder):
    leaving = folder.with_name(folder.name + _PARTIAL)
    folder.rename(leaving)
    shutil.rmtree(leaving)


@contextlib.contextmanager
def _orbax() -> Iterator[ocp.Checkpointer]:
    """An orbax checkpointer that blocks, writes fast and does not chat."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.FATAL)  # whatever fails raises as well
    try:
        # Weights do not compress: zstd saves 8% and takes two to three times as long.
        form = ocp.PyTreeCheckpointHandler(use_zarr3=True, use_compression=False)
        with ocp.Checkpointer(form) as checkpointer:
            yield checkpointer
    finally:
        logging.set_verbosity(before)


class _Damaged(Exception):
    """What is on disk is not what was written."""


def _write_manifest(folder, entries):
    body = {"leaves": entries, "files": _checksums(folder)}
    body["crc32"] = zlib.crc32(_canonical(body))
    (folder / "manifest.json").write_text(json.dumps(body, indent=1))


def _read_manifest(folder) -> list[dict]:
    """The leaves of a checkpoint, after a look at every byte of it."""
    try:
        body = json.loads((folder / "manifest.json").read_bytes())
        crc = body.pop("crc32")
    except FileNotFoundError as e:
        raise _Damaged("manifest.json is missing") from e
    except (ValueError, TypeError, AttributeError, KeyError) as e:
        raise _Damaged("manifest.json cannot be read") from e
    if zlib.crc32(_canonical(body)) != crc:
        raise _Damaged("the checksum of manifest.json differs")
    found = _checksums(folder)
    for name, want in body["files"].items():
        if name not in found:
            raise _Damaged(f"{name} is missing")
        if found[name] != want:
            raise _Damaged(f"the checksum of {name} differs")
    return body["leaves"]


def _canonical(body):
    return json.dumps(body, sort_keys=True).encode()


def _checksums(folder):
    """CRC-32 by file name, of everything below `folder` but the manifest."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    names = [p.relative_to(folder).as_posix() for p in files]
    sums = {n: _crc(p) for n, p in zip(names, files, strict=True)}
    sums.pop("manifest.json", None)
    return sums


def _crc(path):
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc


def _to_host(state):
    """What each leaf is, and by path the leaves that have elements."""
    entries, leaves = [], []
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        entries.append({"path": jax.tree_util.keystr(path), **_describe(leaf)})
        if _is_key(leaf):
            entries[-1]["key"] = str(jax.random.key_impl(leaf))
            leaf = jax.random.key_data(leaf)
        leaves.append(leaf)
    rows = zip(entries, jax.device_get(leaves), strict=True)
    return entries, {e["path"]: np.asarray(a) for e, a in rows if _has_elements(e)}


def _has_elements(entry):
    return 0 not in entry["shape"]  # orbax refuses the others


def _read_arrays(folder, entries):
    paths = [e["path"] for e in entries if _has_elements(e)]
    if not paths:
        return {}
    args = ocp.args.PyTreeRestore(
        item=dict.fromkeys(paths, 0),
        restore_args=dict.fromkeys(paths, ocp.RestoreArgs(restore_type=np.ndarray)),
    )
    with _orbax() as checkpointer:
        return checkpointer.restore(folder / "state", args=args)


def _from_host(entries, arrays, like):
    there = {e["path"]: e for e in entries}

    def one(path, leaf):
        return _leaf(there.get(jax.tree_util.keystr(path)), arrays, leaf)

    return jax.tree_util.tree_map_with_path(one, like)


def _is_watched(path):
    return ".watched[" in path


def _leaf(entry, arrays, like):
    """One leaf, as the kind of thing that stands in its place in `like`."""
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
    there = {e["path"]: f"{e['dtype']}{e['shape']}" for e in entries}
    here = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(like):
        e = _describe(leaf)
        here[jax.tree_util.keystr(path)] = f"{e['dtype']}{e['shape']}"
    for path in {**here, **there}:
        a, b = there.get(path, "absent"), here.get(path, "absent")
        if a != b and not ("absent" in (a, b) and _is_watched(path)):
            raise UserError(
                f"the checkpoint {which} is not of this run: leaf {path} is {a} there "
                f"and {b} here. Choose another folder with --workdir, or give the "
                "values that it was started with."
            )
