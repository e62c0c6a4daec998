"""Accuracy over rounds and against bytes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto.errors import UserError, pick
from jaxproto.plots.canvas import COLOURS, blank, look, panels

UNITS = {"GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0}
_FAR_APART = 20  # times more bytes than another run: from there on a log scale


class Line(NamedTuple):
    """A curve of accuracy against bytes."""

    panel: str
    label: str
    sent: np.ndarray  # bytes until each evaluation
    accuracy: np.ndarray  # per cent


def accuracy_over_rounds(path: str | Path, records: Sequence[Mapping]):
    """Accuracy of every rule: a panel each, and the pooled ones of all behind it.

    Args:
      path: of the PNG file.
      records: of `metrics.jsonl`, at least one.
    """
    rules = list(records[-1]["rules"])
    with blank(path, (1 + 2.6 * len(rules), 3.3)) as figure:
        row = panels(figure, rules)
        row[0].set_ylabel("test accuracy (%)")
        for panel, rule in zip(row, rules, strict=True):
            _one_rule(panel, records, rules, rule)
            panel.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        row[0].legend(fontsize=7, frameon=False, reverse=True)
        figure.supxlabel("round", fontsize="medium")


def accuracy_against_bytes(
    path: str | Path, runs: Mapping[str, Sequence[Mapping]], rule: str | None = None
):
    """Accuracy, pooled over samples, against all bytes sent so far, up and down.

    One run is a panel with a line per rule; several are a panel per rule with a line
    per run, on a log scale where one sends far more than another. What sends nothing
    is a dotted line at its last accuracy.

    Args:
      path: of the PNG file.
      runs: {name: records of `metrics.jsonl`}.
      rule: the only rule to draw; None draws all.

    Raises:
      UserError: a run has no records, or none with bytes; no run has the rule.
    """
    lines = curves(runs, rule)
    ends = [line.sent[-1] for line in lines if line.sent[-1] > 0]
    unit, size = next(u for u in UNITS.items() if max(ends, default=1) >= u[1])
    titles = list(dict.fromkeys(line.panel for line in lines))
    labels = list(dict.fromkeys(line.label for line in lines))
    shown = titles if len(runs) == 1 else [f"rule {title}" for title in titles]
    wide = max(3.4, 2.6 * len(titles)) + 0.055 * max(map(len, labels))
    with blank(path, (1.2 + wide, 3.3)) as figure:
        places = dict(zip(titles, panels(figure, shown), strict=True))
        handles = {}
        for line in lines:
            index = labels.index(line.label)
            handles[line.label] = _against(places[line.panel], line, index, size)
        place = {"loc": "outside right center", "fontsize": 7, "frameon": False}
        figure.legend([handles[k] for k in labels], labels, **place)
        first = places[titles[0]]
        first.set_ylabel("test accuracy (%), over samples")
        _bytes_axis(first, ends)
        for panel in places.values():
            panel.set_xlabel(f"sent so far, both ways ({unit})")


def curves(
    runs: Mapping[str, Sequence[Mapping]], rule: str | None = None
) -> list[Line]:
    """The lines of `accuracy_against_bytes`, which says what they are."""
    there = {name: _evaluated(name, records)[-1] for name, records in runs.items()}
    rules = list(dict.fromkeys(k for last in there.values() for k in last["rules"]))
    rules = rules if rule is None else [pick("rule", rule, rules)]
    lines = []
    for name, records in runs.items():
        sent = np.array([sum(r["bytes_total"].values()) for r in records], float)
        silent = "" if sent[-1] > 0 else " (sends nothing)"
        for kind in (k for k in rules if k in there[name]["rules"]):
            panel, label = (name, kind) if len(runs) == 1 else (kind, name)
            accuracy = _series(records, kind, "pooled")
            lines.append(Line(panel, label + silent, sent, accuracy))
    return lines


def _bytes_axis(panel, ends):
    if not ends:
        panel.set_xticks([0])
    elif max(ends) > _FAR_APART * min(ends):
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter("{x:g}")


def _evaluated(name, records):
    if not records:
        raise UserError(
            f"run {name!r} has no evaluation yet: nothing to draw. Leave it out or "
            "wait for its first one (eval_every)."
        )
    without = [r["round"] for r in records if "bytes_total" not in r]
    if without:
        raise UserError(
            f"run {name!r} has no bytes_total in the record of round {without[0]}: it "
            "is of a version that did not count bytes. Run it again or leave it out."
        )
    return records


def _against(panel, line, index, size):
    colour = COLOURS[index % len(COLOURS)]
    if line.sent[-1] == 0:
        known = line.accuracy[np.isfinite(line.accuracy)]
        last = known[-1] if len(known) else np.nan
        return panel.axhline(last, color=colour, ls=":", lw=1.4, label=line.label)
    marker = "o" if len(line.sent) == 1 else ""
    style = {**look(index), "marker": marker, "label": line.label}
    return panel.plot(line.sent / size, line.accuracy, **style)[0]


def _series(records, rule, key):
    values = [r["rules"].get(rule, {}).get(key) for r in records]
    return 100 * np.array([np.nan if v is None else v for v in values], float)


def _one_rule(panel, records, rules, rule):
    rounds = [r["round"] for r in records]
    colour = COLOURS[rules.index(rule) % len(COLOURS)]
    kind = {"color": colour, "mfc": "white", "marker": "o" if len(rounds) == 1 else ""}
    mean, spread = (_series(records, rule, f"client_{k}") for k in ("mean", "std"))
    low, high = np.clip([mean - spread, mean + spread], 0, 100)
    band = {"color": colour, "alpha": 0.15, "lw": 0}
    panel.fill_between(rounds, low, high, label="its ± std over clients", **band)
    panel.plot(rounds, mean, "--", label="mean over clients", **kind)
    kind["mfc"] = colour
    pooled = _series(records, rule, "pooled")
    panel.plot(rounds, pooled, label="pooled over samples", **kind)
    for other in rules:
        label = "pooled, other rules" if other == rules[-1] != rule else None
        row = {"color": "0.8", "lw": 0.8, "zorder": 1, "label": label}
        panel.plot(rounds, _series(records, other, "pooled"), **row)
