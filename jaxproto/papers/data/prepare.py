"""Downloads a data set and prepares it: `jaxproto prepare NAME`.

  jaxproto prepare cifar10 --data_dir=DIR
  jaxproto prepare gtsrb43/official --data_dir=DIR --manual_dir=ARCHIVES

The set is written as ArrayRecord, which `tfds:NAME` reads without TensorFlow, and its
images as one array, which a run maps instead of decoding them. Preparing
needs TensorFlow for the sets that TFDS builds itself (`pip install
'jaxproto[prepare]'`), and none for tiny_imagenet and gtsrb43. TFDS writes to a
directory `incomplete...` and renames it at the end, so that no set is incomplete.
"""

import contextlib
import difflib
import io
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import NamedTuple
from unittest import mock

import absl.logging

from jaxproto.config.fields import MAX_PIXELS
from jaxproto.errors import UserError
from jaxproto.papers.data.tfds_reader import prepared_folder, write_arrays

RETRIES = 3  # TFDS's own 10 take minutes to say that there is no network
EXTRA = "pip install 'jaxproto[prepare]'"
SPACE = {  # name -> MiB to download, MiB to keep: TFDS's catalogue, and the array
    "mnist": (11, 74),
    "fashion_mnist": (30, 90),
    "cifar10": (163, 309),
    "cifar100": (161, 308),
    "oxford_flowers102": (329, 332),
    "ag_news_subset": (12, 36),
    "tiny_imagenet": (237, 1520),  # from here on, records are estimated from archives
    "gtsrb43": (264, 250),
    "gtsrb43/official": (349, 330),
}


class PreparedDataset(NamedTuple):
    """Result of `prepare`: a prepared data set."""

    name: str  # tfds:NAME reads it
    path: pathlib.Path
    sizes: dict[str, int]  # examples per split
    official: dict[str, int]  # examples per split in the official archives; {} unknown
    fresh: bool  # whether this call prepared it
    note: str = ""  # why runs decode its images


def prepare(
    name: str,
    *,
    data_dir: str | os.PathLike | None = None,
    manual_dir: str | os.PathLike | None = None,
    pixels: int = 0,
    show: Callable[[str], None] = lambda line: None,
) -> PreparedDataset:
    """Prepares a data set as ArrayRecord, unless it is prepared already.

    Args:
      name: name in TFDS, or tiny_imagenet, gtsrb43, gtsrb43/official.
      data_dir: folder of prepared sets; TFDS_DATA_DIR or ~/tensorflow_datasets if None.
      manual_dir: folder of archives that are not downloaded again.
      pixels: height and width of the images in the array; 0 leaves their size.
      show: called with a line on the disk space needed, before the download.
    """
    if not 0 <= pixels <= MAX_PIXELS:
        raise UserError(f"pixels is {pixels}: give {MAX_PIXELS} at most, 0 for none.")
    root, archives = prepared_folder(data_dir), None
    if manual_dir:
        archives = pathlib.Path(manual_dir).expanduser().absolute()
    if archives and not archives.is_dir():
        raise UserError(f"manual_dir {archives} is not a directory. Give another.")
    builder = _builder(name.removeprefix("tfds:"), root)
    fresh = not builder.data_path.exists()
    if fresh:
        if not hasattr(builder, "archives"):
            _check_tensorflow(builder.name)
        show(_check_space(builder, root))
        _prepare_quietly(builder, archives)
    _check_complete(builder)
    path = pathlib.Path(builder.data_path)
    sizes = {
        str(name): split.num_examples for name, split in builder.info.splits.items()
    }
    official = getattr(builder, "official_sizes", {})
    name, note = path.parent.relative_to(root).as_posix(), write_arrays(path, pixels)
    return PreparedDataset(name, path, sizes, official, fresh, note)


def _builder(name, root):
    """Returns TFDS's builder, without reading or writing data."""
    import tensorflow_datasets as tfds  # imported here, as it takes a second

    from jaxproto.papers.data import gtsrb, tiny_imagenet  # noqa: F401

    try:
        with _silence_tfds():
            return tfds.builder(name, data_dir=root)
    except tfds.core.DatasetNotFoundError as error:
        known = tfds.list_builders(with_community_datasets=False)
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        used = ", ".join(n for n in SPACE if "/" not in n)
        raise UserError(
            f"TFDS has no data set {name!r}.{hint} The papers use {used}."
        ) from error
    except ImportError as error:
        raise _missing_package_error(name, error) from error
    except Exception as error:  # versions, configurations, a damaged directory
        first = str(error).strip().partition("\n")[0]
        raise UserError(
            f"{name}: TFDS refuses ({type(error).__name__}: {first}). Check version "
            f"and configuration; if what lies in {root} is damaged, delete it."
        ) from error


def _check_tensorflow(name):
    try:
        import tensorflow  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"preparing {name} needs TensorFlow, which cannot be imported ({error}). "
            f"Install it: {EXTRA}. Only preparing needs it: a set that was "
            "prepared on another machine can be copied and read without."
        ) from error


def _check_space(builder, root):
    """Returns a line on the disk space; raises UserError if it is too small."""
    existing = next(path for path in (root, *root.parents) if path.exists())
    free = shutil.disk_usage(existing).free // 2**20
    names = builder.info.full_name.rpartition("/")[0], builder.name
    download, keep = next((SPACE[name] for name in names if name in SPACE), (0, 0))
    needed = 2 * download + keep  # TFDS unpacks some archives
    if free < needed:
        raise UserError(
            f"preparing {builder.name} needs about {needed} MiB, but {existing} has "
            f"{free} MiB free. Give another --data_dir."
        )
    size = f"{download} MiB to download and {keep} MiB to keep" if needed else "unknown"
    return f"{builder.name}: space needed: {size}; {existing} has {free} MiB free"


def _check_complete(builder):
    """Raises UserError for a set that lacks files or has another format."""
    path = builder.data_path
    splits = builder.info.splits.values()
    files = [file for split in splits for file in split.filepaths]
    files.append(path / "dataset_info.json")
    if missing := [file for file in files if not file.exists()]:
        raise UserError(
            f"{path} is incomplete: {missing[0]} is missing. "
            "Delete the directory and run the same command again."
        )
    if builder.info.file_format.value != "array_record":
        raise UserError(
            f"{path} is prepared as {builder.info.file_format.value}, which only "
            "TensorFlow reads. Delete it, or give another --data_dir."
        )


def _prepare_quietly(builder, manual_dir: pathlib.Path | None):
    """Prepares a set as ArrayRecord; archives in `manual_dir` are not downloaded."""
    import tensorflow_datasets as tfds  # imported here, as it takes a second
    from tensorflow_datasets.core.download import downloader

    config = tfds.download.DownloadConfig(manual_dir=manual_dir)
    fewer_retries = mock.patch.object(downloader, "MAX_RETRIES", RETRIES)
    with _silence_tfds(), _user_errors(builder), fewer_retries:
        builder.download_and_prepare(download_config=config, file_format="array_record")


@contextlib.contextmanager
def _silence_tfds() -> Iterator[None]:
    """Silences logs of TFDS; progress bars go to stderr."""
    level = absl.logging.get_verbosity()
    absl.logging.set_verbosity(absl.logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        absl.logging.set_verbosity(level)


def set_progress_bars(shown: bool):
    """Turns TFDS's progress bars on or off for the process."""
    import tensorflow_datasets as tfds

    if shown:
        tfds.enable_progress_bar()
    else:
        tfds.disable_progress_bar()


@contextlib.contextmanager
def _user_errors(builder) -> Iterator[None]:
    """Turns errors of TFDS and requests into UserError."""
    import requests
    from tensorflow_datasets.core import download

    try:
        yield
    except UserError:
        raise
    except download.download_manager.NonMatchingChecksumError as error:
        first = str(error).partition("\n")[0].rstrip(":")
        raise UserError(
            f"{builder.name}: {first}. It is damaged, or another file is there now: "
            "delete it and run the same command again."
        ) from error
    except (requests.RequestException, download.DownloadError) as error:
        short = f"{type(error).__name__}: {str(error)[:200]}"
        needed = "\n".join(f"  {file}  from  {url}" for file, url in _files(builder))
        raise UserError(
            f"{builder.name}: the download failed ({short}). Without network, "
            "fetch these files elsewhere, put them into one directory and give it by "
            f"--manual_dir:\n{needed}"
        ) from error
    except ImportError as error:
        raise _missing_package_error(builder.name, error) from error
    except OSError as error:
        raise UserError(
            f"{builder.name}: cannot be prepared in {builder.data_path} ({error}). "
            "Nothing half prepared is left; give another --data_dir or run it again."
        ) from error


def _files(builder) -> list[tuple[str, str]]:
    """Returns name and URL of every file that a builder downloads."""
    if hasattr(builder, "archives"):
        return [(a.name, a.url) for a in builder.archives]
    infos = builder.url_infos or {}
    return [(i.filename or url.rpartition("/")[2], url) for url, i in infos.items()]


def _missing_package_error(name: str, error: ImportError) -> UserError:
    """Returns the error for a missing package, with its installation."""
    package = (error.name or "").partition(".")[0]
    command = EXTRA if package == "tensorflow" else f"pip install {package or 'it'}"
    return UserError(
        f"preparing {name} needs a package that is missing ({error}). Install it: "
        f"{command}"
    )


def prepared_message(prepared: PreparedDataset, default: bool) -> list[str]:
    """Returns lines on the location, size and use of a prepared set.

    Args:
      default: whether it is in the default folder of TFDS.
    """
    sizes = ", ".join(f"{size} {split}" for split, size in prepared.sizes.items())
    state = "prepared" if prepared.fresh else "already prepared, nothing to do"
    lines = [f"{prepared.name}: {state}: {sizes} examples in {prepared.path}"]
    if prepared.official not in ({}, prepared.sizes):
        sizes = ", ".join(
            f"{size} {split}" for split, size in prepared.official.items()
        )
        lines.append(
            f"note: the official archives have {sizes} examples: results with these "
            "are not comparable with the papers'"
        )
    for folder in sorted(prepared.path.parent.glob("incomplete*")):
        lines.append(f"note: {folder} is left from an interruption and can be deleted")
    root = prepared.path.parents[prepared.name.count("/") + 1]
    if prepared.fresh and (root / "downloads").exists():
        lines.append(f"{root / 'downloads'} is not needed any more")
    if prepared.note:
        lines.append(f"note: {prepared.note}")
    option = "" if default else f" --config.data.data_dir={root}"
    lines.append(f"use it: --config.data.name=tfds:{prepared.name}{option}")
    return lines
