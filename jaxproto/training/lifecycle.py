"""Start of a run in its work directory."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import ml_collections
import numpy as np
from rich.console import Console

from jaxproto.callbacks import Callback
from jaxproto.callbacks.digest import callback_digest
from jaxproto.config import features
from jaxproto.devices.mesh import ONE, OneDevice
from jaxproto.errors import UserError
from jaxproto.experiment.build import Experiment
from jaxproto.storage import checkpoint, provenance, workdir
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status
from jaxproto.training.progress import progress


class Start(NamedTuple):
    """Arguments that start a run in its work directory."""

    config: ml_collections.ConfigDict
    path: Path
    console: Console
    grace: float
    lock: workdir.WorkdirLock
    progress: Callable = progress  # rounds, rounds done, console -> context
    callbacks: Sequence[Callback] = ()
    layout: OneDevice = ONE  # or several devices
    home: Path | None = None  # the work directory, if all processes share it
    same_code: bool = False  # whether a run goes on with other code of the user

    def claim_folder(self, tokens: Sequence[str]):
        """Makes the folder a run's."""
        workdir.save_tokens(self.path, tokens)
        provenance.record(self.path, self.config)
        workdir.save_config(self.path, self.config)  # after all checks
        self.lock.keep()


def file_checksums(
    config: ml_collections.ConfigDict, exp: Experiment
) -> dict[str, str]:
    """Returns the CRC-32 of what a run reads from files of data and of devices."""
    read: dict[str, Iterable[np.ndarray]] = {}
    if ":" in config.data.name:
        read["data.name"] = exp.dataset.x, exp.dataset.y
    for feature in features.active(config):
        read |= feature.files(config)
    checksums = {}
    for field, arrays in read.items():
        crc = 0
        for array in arrays:
            crc = zlib.crc32(np.ascontiguousarray(array).data, crc)
        checksums[f"checksum of the file in {field}"] = f"{crc:08x}"
    return checksums


def finished_summary(start: Start) -> dict | None:
    """Returns the summary of an ended run; None if there are rounds to train.

    Raises:
      UserError: The folder has another run, or a damaged one.
    """
    config, path = start.config, start.path
    workdir.check_config(path, config, start.same_code)
    run = RunFolder.at(path)
    summary, status = run.summary, run.status(config.rounds)
    if summary is None:
        return None
    stopped = status is Status.STOPPED_EARLY and _has_changed(start, summary)
    if status is Status.EXTENDED or stopped:
        if summary["rounds"] and not checkpoint.rounds(path / "checkpoints"):
            raise UserError(
                f"{path} is {summary['status']} after {summary['rounds']} rounds and "
                f"has no checkpoint from which to go on to rounds={config.rounds}. "
                "Nothing was changed. Choose another folder with --workdir."
            )
        return None
    workdir.check_complete(path, config, summary["rounds"])
    return summary


def _has_changed(start: Start, summary: Mapping) -> bool:
    """Returns whether what has stopped a run has changed, so that it goes on."""
    if summary.get("early_stopping") != start.config.early_stopping.to_dict():
        return True
    if (by := summary.get("stopped_by")) is None:
        return False
    given = map(callback_digest, start.callbacks)
    return start.config.rounds > by["rounds"] or by["digest"] not in given


def ended_line(path: Path, summary: Mapping) -> str:
    """Returns a line on a run that has ended: how it may go on, if it was stopped."""
    if (by := summary.get("stopped_by")) is None:
        return f"{path} is {summary['status']}: nothing to do."
    return (
        f"{path} was stopped by callback {by['callback']} in {summary['reason']}. "
        "Leave the callback out, change it, or give more rounds, and the run goes on."
    )
