"""Data sets from npz files, with the keys that Keras uses."""

import contextlib
import hashlib
import io
import os
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jaxproto import errors
from jaxproto.core.types import SPECIAL
from jaxproto.data import dataset, domains, host_memory
from jaxproto.data.resize import resize_and_join
from jaxproto.io import atomic

TRAIN = ("x_train", "y_train")
TEST = ("x_test", "y_test")
OPTIONAL = ("num_classes", "domain_train", "domain_test", "tokens")


def encode(data: Sequence) -> tuple[str, bytes]:
    """Checks (x, y) or (x, y, x_test, y_test) and encodes them as an npz file.

    Returns the name of the file, which has the hash of its content, and the content.
    """
    if len(data) not in (2, 4):
        n = len(data)
        raise errors.UserError(f"data has {n} parts; give (x, y) or two such pairs.")
    arrays = [np.asarray(a) for a in data]
    train, test = (arrays[0], arrays[1]), (arrays[-2], arrays[-1])
    dataset.make_dataset("data", train, test if len(data) > 2 else None)
    # npz files have no StringDType
    arrays = [np.array(a.tolist()) if a.dtype.kind == "T" else a for a in arrays]
    named: dict[str, Any] = dict(zip(TRAIN + TEST, arrays, strict=False))
    np.savez(file := io.BytesIO(), **named)
    content = file.getvalue()
    return f"arrays-{hashlib.sha256(content).hexdigest()[:12]}.npz", content


def load(path: str | os.PathLike, pixels: int = 0) -> dataset.Dataset:
    """Reads the data set in an npz file.

    The keys are x_train, y_train and optionally x_test, y_test, num_classes (if labels
    do not include the last class), domain_train, domain_test for sources of examples,
    and tokens, the vocabulary of inputs that are tokens: padding and the unknown word
    first. `pixels` is as in `registry.load`.
    """
    name, file = f"npz:{path}", Path(os.path.expanduser(path)).absolute()
    atomic.check_regular(name, file)
    host_memory.check_memory(f"{name}: its arrays", _size(file), "save smaller ones")
    return _load(name, file, pixels)


def _size(file):
    """Returns the bytes of all arrays; 0 if the file is no archive."""
    with contextlib.suppress(OSError, zipfile.BadZipFile), zipfile.ZipFile(file) as z:
        return sum(member.file_size for member in z.infolist())
    return 0


def _load(name, path, pixels):
    arrays, present = _read(path, name)
    needed = TRAIN + TEST if present - {*TRAIN, *OPTIONAL} else TRAIN
    missing = [key for key in needed if key not in arrays]
    if missing:
        raise errors.UserError(
            f"{name}: {', '.join(missing)} missing; the file has "
            f"{errors.first_few(sorted(present)) or 'no arrays'}. "
            f"Save it with np.savez(path, {', '.join(f'{k}=...' for k in needed)})."
        )
    train = arrays["x_train"], arrays["y_train"]
    test = (arrays["x_test"], arrays["y_test"]) if needed != TRAIN else None

    def join(parts):
        if not pixels and (len(parts) == 1 or parts[0].dtype.kind in "UTi"):
            return dataset.join(parts)
        return resize_and_join(name, parts, pixels)

    num_classes, tokens = _declared_classes(name, arrays), _vocabulary(name, arrays)
    data = dataset.make_dataset(
        name, train, test, num_classes, tokens=tokens, join=join
    )
    if "domain_train" not in arrays:
        return data
    return domains.attach_domains(
        data, arrays["domain_train"], arrays.get("domain_test")
    )


def _read(path, name):
    """Reads the arrays of known keys, and the names of all keys."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            known = {*TRAIN, *TEST, *OPTIONAL} & {*archive.files}
            return {key: archive[key] for key in known}, {*archive.files}
    except Exception as error:  # zip, zlib and numpy raise half a dozen kinds
        raise errors.UserError(
            f"{name}: cannot be read as npz ({_reason(error)}). "
            f"Save {os.path.abspath(path)} again with np.savez."
        ) from error


def _reason(error):
    """Returns why numpy cannot read a file, in words of what is wrong with it."""
    reason = errors.reason_of(error)
    if "Object arrays" in reason:
        return "it holds Python objects, in an array of type object"
    if "pickled data" in reason or isinstance(error, zipfile.BadZipFile | EOFError):
        return "it is no npz file, truncated or damaged"
    return f"it is damaged, or of another format; {reason}"


def _vocabulary(name, arrays):
    """Returns the tokens of the file; () if it has none."""
    if "tokens" not in arrays:
        return ()
    tokens = np.ravel(arrays["tokens"]).tolist()
    words = all(isinstance(t, str) and t and not re.search(r"\s", t) for t in tokens)
    if tuple(tokens[: len(SPECIAL)]) != SPECIAL or not words:
        raise errors.UserError(
            f"{name}: tokens is no vocabulary. Save texts without blanks, of which the "
            f"first two are {' and '.join(SPECIAL)}."
        )
    return tuple(tokens)


def _declared_classes(name, arrays):
    """Returns the number of classes in the file; None if it has none."""
    if "num_classes" not in arrays:
        return None
    value = arrays["num_classes"]
    if value.size != 1 or value.dtype.kind not in "iu" or value.item() < 1:
        raise errors.UserError(
            f"{name}: num_classes is {value.tolist()!r}. Save one integer above 0."
        )
    return value.item()
