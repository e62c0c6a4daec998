"""Cache of decoded data sets in the user's cache folder.

An entry is a folder with `x.npy`, which is memory-mapped, the other arrays, and
`about.json`, which is written last and has the size of each file. It is written under
another name and renamed when complete, so that a partial entry is never read. Of two
concurrent writers, the first one wins. `JAXPROTO_CACHE=off` switches the cache off;
`python -m jaxproto cache` shows and clears it.
"""

import contextlib
import hashlib
import json
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

from jaxproto.data.dataset import Dataset
from jaxproto.data.stored_rows import StoreRows, check_room, store_in_memory
from jaxproto.io import atomic

FORMAT = 1  # of entries and of decoding; entries of another format are ignored
LIMIT = 2**35  # bytes of all entries, beyond which the least recently used go
ABANDONED_AFTER = 24 * 3600  # seconds after which an unfinished entry has no writer
ABOUT, UNFINISHED = "about.json", "unfinished-"


def store_in_file(
    path: Path, shape: tuple[int, ...], dtype: np.dtype, blocks: Iterable[np.ndarray]
) -> np.ndarray:
    """Writes blocks of rows to an npy file, without buffering, and maps the file."""
    check_room(shape, dtype)
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
    name: str, read: Callable[[StoreRows], Dataset], **key: str | int
) -> Dataset:
    """Returns a data set from the cache, or reads it and caches it.

    Args:
      name: of the data set, as the user gave it.
      read: function that stores the rows of x by its argument, and returns the checked
        data set.
      **key: values that identify the entry: kind, fingerprint of the files, pixels.

    Raises:
      UserError: from `read`; nothing is cached then.
    """
    root = folder()
    if root is None:
        return read(store_in_memory)
    text = json.dumps({"format": FORMAT, **key}, sort_keys=True)
    entry = root / hashlib.sha256(text.encode()).hexdigest()[:32]
    cached = _open(entry)
    if cached is not None:
        return cached._replace(name=name)
    try:
        return _decode(entry, read)
    except atomic.Unwritable as error:
        note = f"{name} could not be kept decoded in {root}: {error.reason}"
        dataset = read(store_in_memory)
        return dataset._replace(notes=(*dataset.notes, note))


def load_file(
    name: str, read: Callable[[StoreRows], Dataset], file: Path, **key: str | int
) -> Dataset:
    """Returns `load_or_decode` of a data set that is in one file."""
    return load_or_decode(name, read, files=fingerprint([file]), **key)


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


def _decode(entry, read):
    """Reads the data set into a temporary folder, which becomes the entry."""
    with atomic.write_errors(entry, 0):
        entry.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(entry.parent)
        work = Path(tempfile.mkdtemp(dir=entry.parent, prefix=UNFINISHED))
    try:
        with atomic.in_progress(work):
            dataset = read(partial(store_in_file, work / "x.npy"))
            if (work / "x.npy").exists():  # texts are not kept
                with atomic.write_errors(entry, 0):
                    _complete(work, dataset)
                    _rename(work, entry)
                prune(entry.parent, LIMIT, entry)
            return dataset
    finally:
        shutil.rmtree(work, ignore_errors=True)  # it is gone if all went well


def _complete(work, dataset):
    """Writes all arrays but x, syncs them to disk, and writes `about.json` last."""
    for key in ("y", "domain"):
        if getattr(dataset, key) is not None:
            np.save(work / f"{key}.npy", getattr(dataset, key))
    atomic.fsync_tree(work)
    sizes = {path.name: path.stat().st_size for path in work.iterdir()}
    numbers = {key: getattr(dataset, key) for key in ("num_classes", "train_size")}
    texts = {key: getattr(dataset, key) for key in ("classes", "notes", "domains")}
    about = {"name": dataset.name, "sizes": sizes, "numbers": numbers, "texts": texts}
    atomic.write(work / ABOUT, json.dumps(about).encode())


def _rename(work, entry):
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


def _remove_abandoned(root):
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
    complete = []
    for marker in root.glob(f"*/{ABOUT}"):
        with contextlib.suppress(OSError, ValueError, KeyError):
            about = json.loads(marker.read_text())
            size = sum(about["sizes"].values())
            used = marker.stat().st_mtime
            complete.append(CacheEntry(marker.parent, about["name"], size, used))
    return sorted(complete, key=lambda entry: -entry.used)


def prune(root: Path, limit: int, keep: Path | None = None):
    """Removes the least recently used entries beyond `limit` bytes, but not `keep`.

    A process that has mapped a removed entry can still read it.
    """
    total = 0
    for entry in entries(root):
        total += entry.size
        if total > limit and entry.path != keep:
            shutil.rmtree(entry.path, ignore_errors=True)
