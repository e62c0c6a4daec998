"""Tables of a comparison."""

from collections.abc import Sequence

import numpy as np
from rich.table import Table

from benchmarks import measure
from benchmarks.parity import record
from benchmarks.parity.compare import Finding
from benchmarks.parity.record import Record


def accuracy(made: Record, tested: int, rule: str) -> float | None:
    """Returns the accuracy over all clients, None without the prediction rule."""
    right = made.get(record.CORRECT.format(rule))
    return right and float(sum(right.values())) / tested


def outcome(made: Record, tested: int) -> dict[str, float | None]:
    """Returns loss and accuracies of a round."""
    loss = float(made[record.LOSS]["all clients"])
    return {"loss": loss, **{r: accuracy(made, tested, r) for r in record.RULES}}


def results(ours: Sequence[Record], theirs: Sequence[Record], tested: int):
    """Returns rows with loss and accuracies of both sides in every round."""
    every = zip(ours, theirs, strict=True)
    return [
        {"round": r, "jaxproto": outcome(a, tested), "PyTorch": outcome(b, tested)}
        for r, (a, b) in enumerate(every, 1)
    ]


def by_round(title: str, rows: Sequence[dict]) -> Table:
    """Makes the table of loss and accuracies (%) of both sides, with differences."""
    shown = [k for k, v in rows[0]["PyTorch"].items() if v is not None]
    heads = [c for k in shown for c in (k, "diff")]
    cells = [
        [r["round"], *(c for k in shown for c in pair(k, r["jaxproto"], r["PyTorch"]))]
        for r in rows
    ]
    return measure.table(
        f"{title}: loss, accuracy in %; jaxproto / PyTorch", ["round", *heads], cells
    )


def pair(key: str, ours: dict, theirs: dict) -> list[str]:
    """Formats two values and their difference."""
    a, b = (float(side[key]) for side in (ours, theirs))
    if key == "loss":
        return [f"{a:.6f} / {b:.6f}", f"{a - b:+.0e}"]
    return [f"{100 * a:.2f} / {100 * b:.2f}", f"{100 * (a - b):+.2f}"]


def by_quantity(title: str, findings: Sequence[Finding]) -> Table:
    """Makes the table of largest differences in the first and in the last round."""
    last = findings[-1].round
    names = list(dict.fromkeys(f.quantity for f in findings))
    columns = ["quantity"]
    for r in (1, last):
        columns += [f"{r}: diff", "round.", "toler."]
    cells = []
    for name in names:
        own = {f.round: f for f in findings if f.quantity == name}
        nearest = max(own.values(), key=share)
        ends = [v for r in (1, last) for v in numbers(own[r])]
        cells.append([name, *ends, f"{share(nearest):.2g}", nearest.round])
    columns += ["most diff / toler.", "in round"]
    return measure.table(
        f"{title}: stage by stage; rounds 1 and {last}", columns, cells
    )


def share(f: Finding) -> float:
    """Returns the fraction of the tolerance that a difference takes."""
    if f.difference == 0:
        return 0.0
    return f.difference / f.tolerance if f.tolerance else np.inf


def numbers(f: Finding) -> list[str]:
    """Formats difference, rounding and tolerance."""
    return [f"{v:.1e}" for v in (f.difference, f.rounding, f.tolerance)]


def mistakes(rows: Sequence[dict]) -> Table:
    """Makes the table of the first finding for every deliberate mistake."""
    shown = ("round", "quantity", "where", "ours", "theirs", "difference")
    cells = [[r["method"], r["mistake"], *found(r["first"], shown)] for r in rows]
    heads = ("r", "first out of tolerance", "where", "jaxproto", "PyTorch")
    columns = ("method", "in PyTorch", *heads, "diff")
    return measure.table("Deliberate mistakes in PyTorch", columns, cells)


def found(first: dict | None, shown: Sequence[str]) -> list:
    """Returns the cells of a finding, None without one."""
    return [first and short(first[k]) for k in shown]


def short(value):
    """Shortens a number to four digits."""
    return f"{value:.4g}" if isinstance(value, float) else value
