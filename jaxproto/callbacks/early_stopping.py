"""Early stopping of a run whose accuracy no longer improves."""

from collections.abc import Mapping, Sequence

from jaxproto.callbacks.base import Callback, RunInfo, Stop
from jaxproto.storage.records import validation_accuracies


class EarlyStopping(Callback):
    """Callback that stops a run by the accuracy of a rule, pooled over examples.

    It is the accuracy on validation examples, or on test examples of runs without any.
    The callback depends on the records alone, so an interrupted and resumed run ends in
    the same round as an uninterrupted one.
    """

    def __init__(self, patience: int, rule: str = "", least: float = 0.0):
        """Stores the rule and the patience.

        Args:
          patience: Evaluations without improvement after which the run ends.
          rule: Prediction rule; "" is the first one of the records.
          least: Smallest improvement over the best accuracy, as a share.
        """
        self._patience, self._rule, self._least = patience, rule, least
        self._records: list[Mapping] = []

    def on_start(self, run_info: RunInfo) -> Stop | None:
        """Stops at once if the records already meet the condition."""
        self._records = list(run_info.records)
        return self._stop_request()

    def on_evaluation(self, record: Mapping) -> Stop | None:
        """Stops if the last evaluation exhausts the patience."""
        self._records.append(record)
        return self._stop_request()

    def _stop_request(self) -> Stop | None:
        if not self._records:
            return None
        rule = self._rule or next(iter(self._records[-1]["rules"]))
        best, best_round, waited = best_and_wait(self._records, rule, self._least)
        if waited < self._patience:
            return None
        validated = validation_accuracies(self._records, rule) is not None
        on = "validation" if validated else "test"
        return Stop(
            f"no pooled {on} accuracy of rule {rule} above {best:.4f} of round "
            f"{best_round}"
            f"{f' by {self._least:g}' * bool(self._least)} in {waited} evaluations"
        )


def best_and_wait(
    records: Sequence[Mapping], rule: str, least: float
) -> tuple[float, int, int]:
    """Returns the best accuracy, its round, and the number of evaluations since.

    Args:
      records: Records of `metrics.jsonl`.
      rule: Prediction rule; each record has its accuracy or None. With validation
        accuracies these count.
      least: Smallest improvement over the best accuracy, as a share.
    """
    best, best_round, waited = float("-inf"), 0, 0
    accuracies = validation_accuracies(records, rule)
    if accuracies is None:
        accuracies = [record["rules"][rule]["pooled"] for record in records]
    for record, accuracy in zip(records, accuracies, strict=True):
        waited += 1
        if accuracy is not None and accuracy > best + least:
            best, best_round, waited = accuracy, record["round"], 0
    return best, best_round, waited
