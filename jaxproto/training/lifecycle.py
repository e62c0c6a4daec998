"""Start and resume of a run in its work directory."""

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import ml_collections
import numpy as np
from rich.console import Console

from jaxproto.callbacks import Callback, EarlyStopping
from jaxproto.config import features
from jaxproto.devices.mesh import ONE, OneDevice
from jaxproto.errors import UserError
from jaxproto.experiment.build import Experiment
from jaxproto.storage import checkpoint, provenance, records, workdir
from jaxproto.storage.run_folder import METRICS, RunFolder
from jaxproto.storage.status import Status
from jaxproto.summary import run_summary
from jaxproto.summary.progress_lines import say
from jaxproto.training import processes
from jaxproto.training.callback_list import CallbackList
from jaxproto.training.programs import State
from jaxproto.training.progress import progress
from jaxproto.training.rounds import RoundEnvironment


class Run(NamedTuple):
    """Constants of a run in training."""

    config: ml_collections.ConfigDict
    settings: Mapping  # that its checkpoints share
    path: Path
    work: RoundEnvironment
    compile_stats: run_summary.CompileStats
    console: Console
    grace: float  # seconds that a round may take after SIGTERM
    progress: Callable  # rounds, rounds done, console -> context of a `Progress`
    callbacks: CallbackList
    privacy: Callable[[int], dict]  # see `privacy_ledger`


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

    def run(self, work: RoundEnvironment, **others) -> Run:
        """Returns the run that starts, with the other fields of a `Run`."""
        checksums = file_checksums(self.config, work.exp)
        options, callbacks = self.config.early_stopping, list(self.callbacks)
        if options.patience and processes.is_primary():
            early = EarlyStopping(options.patience, options.rule, options.least)
            callbacks.insert(0, early)
        return Run(
            config=self.config,
            settings=workdir.settings(self.config) | checksums,
            path=self.path,
            work=work,
            console=self.console,
            grace=self.grace,
            progress=self.progress,
            callbacks=CallbackList(callbacks, self.console),
            **others,
        )


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
    if status is Status.EXTENDED:
        if not checkpoint.rounds(path / "checkpoints"):
            raise UserError(
                f"{path} is finished after {summary['rounds']} rounds and has no "
                f"checkpoint from which to go on to rounds={config.rounds}. Nothing "
                "was changed. Choose another folder with --workdir."
            )
        return None
    rule = config.early_stopping.to_dict()
    if status is Status.STOPPED_EARLY and summary.get("early_stopping") != rule:
        return None  # it resumes with the new rule
    workdir.check_complete(path, config, summary["rounds"])
    return summary


def resume(run: Run, state: State) -> tuple[int, State]:
    """Restores the newest valid checkpoint, and truncates the metrics to its round.

    A checkpoint is valid only if the metrics have the records of all evaluations that
    are due up to its round.

    Returns:
      The round and the state; 0 and `state` without checkpoints.

    Raises:
      UserError: No checkpoint is valid.
    """
    like = run.work.store.gather_state(state)
    restored = processes.raise_everywhere(lambda: _restore_latest(run, like))
    start, saved = processes.broadcast_arrays((restored.round, restored.state))
    if start:
        state = run.work.store.restore(saved)
    records.truncate_after(run.path / METRICS, int(start))
    return int(start), state


def _restore_latest(run: Run, like: State) -> checkpoint.Restored:
    """Restores the newest valid checkpoint; loads its client rows into the store."""
    directory = run.path / "checkpoints"
    due = workdir.expected_rounds(run.path, run.config)
    covered = records.coverage(run.path / METRICS, due)
    restored = checkpoint.restore_latest(directory, like, run.settings, covered)
    if restored is None:
        return checkpoint.Restored(0, like, [])
    run.work.store.load(directory / str(restored.round))
    for note in restored.notes:
        say(run.console, note)
    say(run.console, f"resuming {run.path} after round {restored.round}")
    checkpoint.prune(directory, restored.round)
    return restored
