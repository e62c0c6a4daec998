"""Early stopping: a run ends when its accuracy has not improved for a while."""

from collections.abc import Mapping, Sequence

from jaxproto.callbacks.base import Callback, RunInfo, Stop


class EarlyStopping(Callback):
    """Stops by the accuracy of a rule, pooled over examples.

    What it does follows from the records alone, so that a run which was interrupted
    ends in the round in which it would have ended.
    """

    def __init__(self, patience: int, rule: str = "", least: float = 0.0):
        """Waits for `patience` evaluations.

        Args:
          patience: evaluations without improvement after which the run ends.
          rule: of prediction; "" is the first one of the records.
          least: how much above the best one an accuracy has to be, as a share.
        """
        self._patience, self._rule, self._least = patience, rule, least
        self._records: list[Mapping] = []

    def on_start(self, run_info: RunInfo) -> Stop | None:
        """Stops at once where the records say so: the end was not written."""
        self._records = list(run_info.records)
        return self._decided()

    def on_evaluation(self, record: Mapping) -> Stop | None:
        """Stops if this was one evaluation too many."""
        self._records.append(record)
        return self._decided()

    def _decided(self) -> Stop | None:
        if not self._records:
            return None
        rule = self._rule or next(iter(self._records[-1]["rules"]))
        best, at, waited = best_and_wait(self._records, rule, self._least)
        if waited < self._patience:
            return None
        return Stop(
            f"no pooled accuracy of rule {rule} above {best:.4f} of round {at}"
            f"{f' by {self._least:g}' * bool(self._least)} in {waited} evaluations"
        )


def best_and_wait(
    records: Sequence[Mapping], rule: str, least: float
) -> tuple[float, int, int]:
    """The best accuracy, its round, and the evaluations since.

    Args:
      records: of `metrics.jsonl`.
      rule: of prediction, of which each record has an accuracy or None.
      least: what an accuracy must have above the best one, to be a better one.
    """
    best, at, waited = float("-inf"), 0, 0
    for record in records:
        accuracy = record["rules"][rule]["pooled"]
        better = accuracy is not None and accuracy > best + least
        if better:
            best, at, waited = accuracy, record["round"], 0
        else:
            waited += 1
    return best, at, waited
