"""Cache of decoded data sets in the user's cache folder.

An entry is a folder with `x.npy`, which is memory-mapped, the other arrays, and
`about.json`, which is written last and has the size of each file. It is written under
another name and renamed when complete, so that a partial entry is never read; of two
concurrent writers the first one wins. `JAXPROTO_CACHE=off` switches the cache off;
`python -m jaxproto cache` shows and clears it.
"""

import contextlib
import hashlib
import json
import math
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import platformdirs

from jaxproto.data import host_memory
from jaxproto.data.dataset import Dataset
from jaxproto.io import atomic

FORMAT = 1  # of an entry and of the decoding; another number ignores old entries
LIMIT = 2**35  # bytes of all entries; the least recently used are removed beyond
ABANDONED_AFTER = 24 * 3600  # seconds after which an unfinished entry has no writer
ABOUT, UNFINISHED = "about.json", "unfinished-"


# shape, type and blocks of rows, in order -> array of all rows
StoreRows = Callable[[tuple[int, ...], np.dtype, Iterable[np.ndarray]], np.ndarray]


def store_in_memory(
    shape: tuple[int, ...], dtype: np.dtype, blocks: Iterable[np.ndarray]
) -> np.ndarray:
    """Joins blocks of rows in memory, without cache."""
    _check_room(shape, dtype)
    x, end = np.empty(shape, dtype), 0
    for rows in blocks:
        x[end : end + len(rows)] = rows
        end += len(rows)
    return x


def _check_room(shape, dtype):
    size = math.prod(shape) * np.dtype(dtype).itemsize
    way = "choose a smaller data.pixels, or fewer examples"
    host_memory.check_memory(f"{shape[0]} examples of shape {shape[1:]}", size, way)


def store_in_file(
    path: Path, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterable[np.ndarray]
) -> np.ndarray:
    """Writes blocks of rows to an npy file, without buffering, and maps the file."""
    _check_room(shape, dtype)
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    with atomic.write_errors(path, 0), path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
    for rows in blocks:
        assert rows.shape[1:] == shape[1:], rows.shape
        with atomic.write_errors(path, rows.nbytes), path.open("ab") as file:
            file.write(np.ascontiguousarray(rows, dtype).data)
    return np.load(path, mmap_mode="r")


def folder() -> Path | None:
    """Returns the folder of the entries; None if the cache is off."""
    if os.environ.get("JAXPROTO_CACHE") == "off":
        return None
    return Path(platformdirs.user_cache_dir("jaxproto")) / "data"


def fingerprint(paths: Iterable[str | Path]) -> str:
    """Hashes path, size and modification time of every file, in this order."""
    digest = hashlib.sha256()
    for path in paths:
        size, changed = 0, 0  # of a dangling link, which reading refuses
        with contextlib.suppress(OSError):
            status = os.stat(path)
            size, changed = status.st_size, status.st_mtime_ns
        digest.update(f"{path}\0{size}\0{changed}\n".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def load_or_decode(
    name: str, read: Callable[[StoreRows], Dataset], **what: str | int
) -> Dataset:
    """Returns a data set from the cache, or reads it and caches it.

    Args:
      name: of the data set, as the user gave it.
      read: called with a function that stores the rows of x, returns the checked
        data set.
      **what: key of the entry: kind, fingerprint of the files, pixels.

    Raises:
      UserError: from `read`; nothing is cached then.
    """
    root = folder()
    if root is None:
        return read(store_in_memory)
    text = json.dumps({"format": FORMAT, **what}, sort_keys=True)
    entry = root / hashlib.sha256(text.encode()).hexdigest()[:32]
    cached = _open(entry)
    if cached is not None:
        return cached._replace(name=name)
    try:
        return _keep(entry, read)
    except atomic.Unwritable as error:
        note = f"{name} could not be kept decoded in {root}: {error.reason}"
        dataset = read(store_in_memory)
        return dataset._replace(notes=(*dataset.notes, note))


def _open(entry):
    """Opens the data set in an entry; None if the entry is not complete."""
    try:
        about = json.loads((entry / ABOUT).read_text())
        sizes = {key: (entry / key).stat().st_size for key in about["sizes"]}
        if sizes != about["sizes"]:
            return None
        arrays = {
            Path(key).stem: np.load(
                entry / key, mmap_mode="r" if key == "x.npy" else None
            )
            for key in sizes
        }
        texts = {key: tuple(value) for key, value in about["texts"].items()}
        dataset = Dataset(**arrays, **texts, **about["numbers"], name="")
        with contextlib.suppress(OSError):  # a read-only cache
            os.utime(entry / ABOUT)  # its modification time is that of the last use
        return dataset
    except (OSError, ValueError, KeyError, TypeError, EOFError):
        return None


def _keep(entry, read):
    """Reads the data set into a temporary folder, which becomes the entry."""
    with atomic.write_errors(entry, 0):
        entry.parent.mkdir(parents=True, exist_ok=True)
        _sweep(entry.parent)
        work = Path(tempfile.mkdtemp(dir=entry.parent, prefix=UNFINISHED))
    try:
        with atomic.in_progress(work):
            made = read(partial(store_in_file, work / "x.npy"))
            if (work / "x.npy").exists():  # texts are not kept
                with atomic.write_errors(entry, 0):
                    _complete(work, made)
                    _put(work, entry)
                prune(entry.parent, LIMIT, entry)
            return made
    finally:
        shutil.rmtree(work, ignore_errors=True)  # it is gone if all went well


def _complete(work, made):
    """Writes all arrays but x, syncs them to disk, and writes `about.json` last."""
    for key in ("y", "domain"):
        if getattr(made, key) is not None:
            np.save(work / f"{key}.npy", getattr(made, key))
    atomic.fsync_tree(work)
    sizes = {path.name: path.stat().st_size for path in work.iterdir()}
    numbers = {"num_classes": made.num_classes, "train_size": made.train_size}
    texts = {key: getattr(made, key) for key in ("classes", "notes", "domains")}
    about = {"name": made.name, "sizes": sizes, "numbers": numbers, "texts": texts}
    atomic.write(work / ABOUT, json.dumps(about).encode())


def _put(work, entry):
    """Renames `work` to `entry`, unless another writer was first."""
    if entry.exists() and _open(entry) is None:
        broken = Path(tempfile.mkdtemp(dir=entry.parent, prefix=UNFINISHED))
        os.rename(entry, broken)  # atomic: no process sees a partly removed entry
        shutil.rmtree(broken, ignore_errors=True)
    try:
        os.rename(work, entry)
    except OSError:
        if _open(entry) is None:
            raise


def _sweep(root):
    """Removes unfinished entries of killed writers."""
    for path in root.glob(f"{UNFINISHED}*"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED_AFTER:
                shutil.rmtree(path, ignore_errors=True)


class CacheEntry(NamedTuple):
    """Entry of the cache."""

    path: Path
    name: str  # of the data set when it was cached
    size: int  # bytes
    used: float  # time of the last use, in seconds since the epoch


def entries(root: Path) -> list[CacheEntry]:
    """Returns the complete entries in a folder, most recently used first."""
    kept = []
    for marker in root.glob(f"*/{ABOUT}"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            about = json.loads(marker.read_text())
            size = sum(about["sizes"].values())
            used = marker.stat().st_mtime
            kept.append(CacheEntry(marker.parent, about["name"], size, used))
    return sorted(kept, key=lambda entry: -entry.used)


def prune(root: Path, limit: int, keep: Path | None = None) -> list[CacheEntry]:
    """Removes the least recently used entries beyond `limit` bytes in all.

    It never removes `keep`, and returns the removed entries. A process that has mapped
    a removed entry can still read it.
    """
    total, removed = 0, []
    for kept in entries(root):
        total += kept.size
        if total > limit and kept.path != keep:
            shutil.rmtree(kept.path, ignore_errors=True)
            removed.append(kept)
    return removed
