"""Progress display of a run (a live line or plain lines), and its result tables."""

import contextlib
import datetime
import math
import statistics
from collections import deque
from collections.abc import Callable, Iterator, Mapping

from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.table import Table

from jaxproto.storage import records
from jaxproto.summary import progress_lines

_RECENT = 10  # rounds of "seconds per round"; their median excludes compilation
_BAR, _GAP = 24, 2  # columns of the bar, if the line has space, and between cells


class Progress:
    """Display of the rounds done so far; see `progress`."""

    def __init__(self, total: int, start: int, console: Console):
        """Starts with `start` of `total` rounds done."""
        self._total, self._done, self._console = total, start, console
        self.refresh: Callable[[], None] = lambda: None
        self._seconds: deque[float] = deque(maxlen=_RECENT)
        self._record: Mapping = {}

    def round(self, r: int, seconds: float):
        """Shows that round `r`, from 1, is done and took `seconds`."""
        self._done = r
        self._seconds.append(seconds)
        self.refresh()

    def evaluated(self, record: Mapping):
        """Shows a new record of `metrics.jsonl`."""
        self._record = record
        if not self._console.is_interactive:
            cells = [self._position(), *_accuracies(record), *_loss(record)]
            text = "  ".join([*cells, *self._speed()])
            progress_lines.say(self._console, text)
        self.refresh()

    def line(self) -> Table:
        """Returns position, bar, accuracy and speed; the bar takes the free columns."""
        first = _accuracies(self._record)[:1]
        cells = [self._position(), *first, *self._speed()]
        free = self._console.width - sum(len(c) + _GAP for c in cells) - 1
        if free >= _GAP:
            width = min(_BAR, free)
            cells.insert(1, ProgressBar(self._total, self._done, width=width))
        line = Table.grid(padding=(0, _GAP))
        for _ in cells:
            line.add_column(no_wrap=True)
        line.add_row(*cells)
        return line

    def _position(self):
        return f"round {self._done:>{len(str(self._total))}}/{self._total}"

    def _speed(self):
        if not self._seconds:
            return []
        seconds = statistics.median(self._seconds)
        left = datetime.timedelta(seconds=round(seconds * (self._total - self._done)))
        return [f"{seconds:.3g} s/round", f"{left} left"]


@contextlib.contextmanager
def progress(total: int, start: int, console: Console) -> Iterator[Progress]:
    """Shows the rounds of a run: live on a terminal, else one line per evaluation.

    Of the `total` rounds, `start` are done.
    """
    display = Progress(total, start, console)
    with progress_lines.live(console, display.line) as display.refresh:
        yield display


def result_table(summary: Mapping) -> Table:
    """Returns accuracies in percent per rule: pooled, and as the mean over clients."""
    rules = summary["rules"]
    count = _averaged(rules)
    split = records.chosen_on(averages["pooled"] for averages in rules.values())
    title = f"test accuracy in %: best {split} round, final, "
    title += f"mean of last {count} evaluations"
    table = Table(title=title, show_edge=False)  # fits 80 columns
    table.add_column("rule", no_wrap=True)
    for average in ("pooled", "client"):
        for value in ("best", "final", f"last{count}"):
            table.add_column(f"{average}\n{value}", justify="right", no_wrap=True)
    for rule, averages in rules.items():
        cells = [c for k in records.AVERAGES for c in _cells(averages.get(k), _percent)]
        table.add_row(rule, *cells)
    return table


def metrics_table(summary: Mapping) -> Table | None:
    """Returns metrics besides accuracy per rule and metric; None if there are none.

    Metrics with a value per class are left out.
    """
    rows = [
        (rule, name, averages["pooled"], averages["mean"]["final"])
        for rule, metrics in summary.get("metrics", {}).items()
        for name, averages in metrics.items()
        if "best" in averages["pooled"]
    ]
    if not rows:
        return None
    count = max(pooled["last_n"] for _, _, pooled, _ in rows)
    title = "further metrics: pooled over examples; mean over clients"
    table = Table(title=title, show_edge=False)  # fits 80 columns
    for name in ("rule", "metric"):
        table.add_column(name, no_wrap=True)
    for name in ("best", "final", f"last{count}", "client\nfinal"):
        table.add_column(name, justify="right", no_wrap=True)
    for rule, name, pooled, mean in rows:
        table.add_row(rule, name, *_cells(pooled, _number), _number(mean))
    return table


def _number(value) -> str:
    return "-" if value is None else f"{value:.4f}"


def _cells(digest, show):
    """Returns best with its round, final and recent mean value, by `show` as text."""
    if digest is None:
        return ("-",) * 3
    best = show(digest["best"])
    if digest.get("best_round") is not None:
        best += f" ({digest['best_round']})"
    return best, show(digest["final"]), show(records.mean_last(digest)[0])


def _averaged(rules):
    """Returns the number of averaged evaluations; "≤10" if the summary lacks it."""
    digests = [digest for averages in rules.values() for digest in averages.values()]
    counts = [records.mean_last(digest)[1] for digest in digests]
    return f"≤{records.LAST}" if None in counts else max(counts, default=records.LAST)


def _percent(share):
    return "-" if share is None else f"{100 * share:.2f}"


def _accuracies(record):
    rules = record.get("rules", {})
    return [f"{rule} {_percent(a['pooled'])}%" for rule, a in rules.items()]


def accuracy_text(record: Mapping) -> str:
    """Returns the accuracy of the first rule of a record."""
    return next(iter(_accuracies(record)), "")


def _loss(record):
    if "loss" not in record:
        return []
    loss = record["loss"]
    # none has trained, or all losses are private
    return ["loss -" if loss is None or math.isnan(loss) else f"loss {loss:.4f}"]
