"""Events of a run that callbacks handle, and their return values.

A callback is an object with any of the methods of `Callback`. Its arguments are copies,
so changes to them do not affect the run.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

EVENTS = ("on_start", "on_round", "on_evaluation", "on_checkpoint", "on_end")
MAY_STOP = ("on_start", "on_evaluation")  # events whose handlers can end the run
STOP = "stop"  # the short form of Stop


class RunInfo(NamedTuple):
    """Description of a run that is about to train."""

    path: Path  # work directory
    config: Mapping[str, Any]  # flat: dotted path -> value
    round: int  # rounds done before; 0 for a new run
    records: Sequence[Mapping]  # of `metrics.jsonl`, up to `round`


class Stop(NamedTuple):
    """Request to end a run early, with its pictures and summary."""

    reason: str = "a callback has asked for it"


Answer = Stop | str | None


class Callback:
    """Base class of callbacks; its methods do nothing."""

    def on_start(self, run_info: RunInfo) -> Answer:
        """Runs before training starts or resumes; returning `Stop` trains no round."""

    def on_round(self, record: Mapping) -> None:
        """Runs after a round, with its number from 1, seconds, loss and bytes."""

    def on_evaluation(self, record: Mapping) -> Answer:
        """Runs after an evaluation, with its record in `metrics.jsonl`."""

    def on_checkpoint(self, round: int, path: Path) -> None:
        """Runs after a checkpoint, with the rounds done and the checkpoint's folder."""

    def on_end(self, summary: Mapping) -> None:
        """Runs once at the end, with the content of `summary.json`; closes files.

        If the process was interrupted (status "interrupted") or failed ("failed"), the
        summary has only status, reason and rounds.
        """
