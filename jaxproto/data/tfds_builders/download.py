"""Runs of TFDS builders without logs, and with errors as UserError."""

import contextlib
import io
import logging
import pathlib
from collections.abc import Iterator
from unittest import mock

import absl.logging

from jaxproto.errors import UserError

RETRIES = 3  # TFDS's own 10 take minutes to say that there is no network
EXTRA = "pip install 'jaxproto[prepare]'"


def prepare_quietly(builder, manual_dir: pathlib.Path | None):
    """Prepares a set as ArrayRecord; archives in `manual_dir` are not downloaded."""
    import tensorflow_datasets as tfds  # imported here, as it takes a second
    from tensorflow_datasets.core.download import downloader

    config = tfds.download.DownloadConfig(manual_dir=manual_dir)
    fewer_retries = mock.patch.object(downloader, "MAX_RETRIES", RETRIES)
    with silence_tfds(), _user_errors(builder), fewer_retries:
        builder.download_and_prepare(download_config=config, file_format="array_record")


@contextlib.contextmanager
def silence_tfds() -> Iterator[None]:
    """Silences logs of TFDS and urllib3; progress bars go to stderr."""
    urllib3 = logging.getLogger("urllib3")
    level, urllib3_level = absl.logging.get_verbosity(), urllib3.level
    absl.logging.set_verbosity(absl.logging.ERROR)
    urllib3.setLevel(logging.ERROR)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            yield
    finally:
        absl.logging.set_verbosity(level)
        urllib3.setLevel(urllib3_level)


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
        needed = "\n".join(f"  {file}  from  {url}" for file, url in files(builder))
        raise UserError(
            f"{builder.name}: the download failed ({short}). Without network, "
            "fetch these files elsewhere, put them into one directory and give it by "
            f"--manual_dir:\n{needed}"
        ) from error
    except ImportError as error:
        raise missing_package_error(builder.name, error) from error
    except OSError as error:
        raise UserError(
            f"{builder.name}: cannot be prepared in {builder.data_path} ({error}). "
            "Nothing half prepared is left; give another --data_dir or run it again."
        ) from error


def files(builder) -> list[tuple[str, str]]:
    """Returns name and URL of every file that a builder downloads."""
    if hasattr(builder, "archives"):
        return [(a.name, a.url) for a in builder.archives]
    infos = builder.url_infos or {}
    return [(i.filename or url.rpartition("/")[2], url) for url, i in infos.items()]


def missing_package_error(name: str, error: ImportError) -> UserError:
    """Returns the error for a missing package, with its installation."""
    package = (error.name or "").partition(".")[0]
    command = EXTRA if package == "tensorflow" else f"pip install {package or 'it'}"
    return UserError(
        f"preparing {name} needs a package that is missing ({error}). Install it: "
        f"{command}"
    )
