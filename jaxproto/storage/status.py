"""Status of a run."""

import enum
from collections.abc import Mapping


class Status(enum.StrEnum):
    """Status of a run; `summary.json` has that of an ended run."""

    NEW = "new"  # no file yet
    RUNNING = "running"  # or killed: no summary
    EXTENDED = "extended"  # finished with fewer rounds than are planned now
    FINISHED = "finished"
    STOPPED_EARLY = "stopped early"
    DIVERGED = "diverged"

    @property
    def ok(self) -> bool:
        """True if the run has ended with results."""
        return self in (Status.FINISHED, Status.STOPPED_EARLY)

    @property
    def ended(self) -> bool:
        """True if no rounds are left to train."""
        return self.ok or self is Status.DIVERGED


def status_of(summary: Mapping | None, rounds: float = 0, begun: bool = True) -> Status:
    """Returns the status of a run.

    Args:
      summary: of the run, if it has ended.
      rounds: planned number.
      begun: whether there are files of a run without a summary.
    """
    if summary is None:
        return Status.RUNNING if begun else Status.NEW
    known = summary["status"] in list(Status)  # not of another version, or damaged
    status = Status(summary["status"]) if known else Status.RUNNING
    extended = status is Status.FINISHED and summary.get("rounds", rounds) < rounds
    return Status.EXTENDED if extended else status
