"""Early stopping of a run whose accuracy no longer improves."""

from collections.abc import Mapping

from jaxproto.callbacks.base import Callback, RunInfo, Stop
from jaxproto.storage.records import validation_accuracies


class EarlyStopping(Callback):
    """Callback that stops a run by the accuracy of a rule, pooled over examples.

    The accuracy is that on validation examples, or on test examples if the run has no
    validation examples. The callback depends on the records alone, so an interrupted
    and resumed run ends in the same round as an uninterrupted one.
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
        """Stops at once if the saved records already exhaust the patience."""
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
        accuracies, split = validation_accuracies(self._records, rule), "validation"
        if accuracies is None:
            accuracies = [r["rules"][rule]["pooled"] for r in self._records]
            split = "test"
        best, best_round, waited = float("-inf"), 0, 0
        for record, accuracy in zip(self._records, accuracies, strict=True):
            waited += 1
            if accuracy is not None and accuracy > best + self._least:
                best, best_round, waited = accuracy, record["round"], 0
        if waited < self._patience:
            return None
        return Stop(
            f"no pooled {split} accuracy of rule {rule} above {best:.4f} of round "
            f"{best_round}"
            f"{f' by {self._least:g}' * bool(self._least)} in {waited} evaluations"
        )
