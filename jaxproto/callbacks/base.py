"""What a run tells those who listen to it, and what they may answer.

A callback is an object with any of the methods of `Callback`. Each gets copies: what it
does with them changes nothing in the run.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

EVENTS = ("on_start", "on_round", "on_evaluation", "on_checkpoint", "on_end")
STOP = "stop"  # the short form of Stop


class RunInfo(NamedTuple):
    """A run that is about to train."""

    path: Path  # its work directory
    config: Mapping[str, Any]  # flat: dotted path -> value
    round: int  # rounds done before; 0 where it is new
    records: Sequence[Mapping]  # of `metrics.jsonl`, up to there


class Stop(NamedTuple):
    """Ends a run early, as finished as one that has had all its rounds."""

    reason: str = "a callback has asked for it"


Answer = Stop | str | None


class Callback:
    """A callback that does nothing: a base class for those that leave methods out."""

    def on_start(self, run_info: RunInfo) -> Answer:
        """Before the first round that is trained now; `Stop` lets there be none."""

    def on_round(self, record: Mapping) -> None:
        """After a round: its number, from 1, seconds, loss, participants and bytes."""

    def on_evaluation(self, record: Mapping) -> Answer:
        """After an evaluation: what `metrics.jsonl` has of it. `Stop` ends the run."""

    def on_checkpoint(self, round: int, path: Path) -> None:
        """After a checkpoint: the rounds behind it, and its folder."""

    def on_end(self, summary: Mapping) -> None:
        """Once, however the run ends: `summary.json`.

        Of a process that was told to end (status "interrupted") or that failed
        ("failed") there are status, reason and rounds alone. Here, files are closed.
        """
