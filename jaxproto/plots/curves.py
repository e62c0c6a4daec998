"""Accuracy over rounds and against bytes."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto.errors import UserError, choose_from
from jaxproto.plots import layout
from jaxproto.plots.style import COLOURS, line_style, marker_style, new_figure

UNITS = {"GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0}
MIN_SPACING = 20  # times more bytes than another run: from there on a log scale


class Curve(NamedTuple):
    """A curve of accuracy against bytes, the mean over seeds."""

    panel: str
    label: str
    sent: np.ndarray  # bytes until each evaluation
    accuracy: np.ndarray  # per cent
    low: np.ndarray  # least of the seeds
    high: np.ndarray


def accuracy_over_rounds(path: str | Path, records: Sequence[Mapping], name: str = ""):
    """Accuracy of every rule: a panel each, and the pooled ones of all behind it.

    Args:
      path: of the file.
      records: of `metrics.jsonl`, at least one.
      name: of the method.
    """
    rules = list(records[-1]["rules"])
    with new_figure(path, layout.figure_size(len(rules), more=0.2)) as figure:
        drawn = layout.panels(figure, [f"rule {rule}" for rule in rules])
        figure.suptitle(name)
        for panel, rule in zip(drawn, rules, strict=True):
            _one_rule(panel, records, rules, rule)
            panel.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        layout.label_outer_axes(drawn, "round", "test accuracy (%)")
        shown = dict(zip(*drawn[0].get_legend_handles_labels()[::-1], strict=True))
        layout.legend(figure, list(shown.values()), list(shown))


def accuracy_against_bytes(
    path: str | Path,
    runs: Mapping[str, Sequence[Sequence[Mapping]]],
    rule: str | None = None,
):
    """Accuracy, pooled over samples, against all bytes sent so far, up and down.

    One run is a panel with a line per rule; several are a panel per rule with a line
    per run, on a log scale where one sends far more than another. What sends nothing
    is a dotted line at its last accuracy. The mean over seeds, with a band from the
    least to the largest.

    Args:
      path: of the file.
      runs: {name: for each of its seeds, records of `metrics.jsonl`}.
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
    with new_figure(path, layout.figure_size(len(titles), (2.5, 2.3))) as figure:
        drawn = layout.panels(figure, shown)
        places = dict(zip(titles, drawn, strict=True))
        handles = {}
        for line in lines:
            index = labels.index(line.label)
            handles[line.label] = _against(places[line.panel], line, index, size)
        _bytes_axis(drawn[0], ends)
        layout.label_outer_axes(
            drawn, f"sent so far, both ways ({unit})", "test accuracy (%)"
        )
        layout.legend(figure, [handles[k] for k in labels], labels)


def curves(
    runs: Mapping[str, Sequence[Sequence[Mapping]]], rule: str | None = None
) -> list[Curve]:
    """The lines of `accuracy_against_bytes`, which says what they are."""
    for name, seeds in runs.items():
        for records in seeds:
            evaluated(name, records)
    there = {name: seeds[0][-1] for name, seeds in runs.items()}
    rules = list(dict.fromkeys(k for last in there.values() for k in last["rules"]))
    rules = rules if rule is None else [choose_from("rule", rule, rules)]
    lines = []
    for name, seeds in runs.items():
        common = shared_rounds(seeds)
        sent = np.mean([[_sent(r) for r in rows] for rows in common], 0)
        silent = "" if sent[-1] > 0 else " (sends nothing)"
        for kind in (k for k in rules if k in there[name]["rules"]):
            panel, label = (name, kind) if len(runs) == 1 else (kind, name)
            seen = band_over_seeds([_series(rows, kind, "pooled") for rows in common])
            lines.append(Curve(panel, label + silent, sent, *seen))
    return lines


def shared_rounds(seeds: Sequence[Sequence[Mapping]]) -> list[list[Mapping]]:
    """Of each seed, the records of those rounds that all of them have.

    Raises:
      UserError: there are none.
    """
    common = set.intersection(*[{r["round"] for r in records} for records in seeds])
    if not common:
        raise UserError(
            "the seeds of a run share no evaluated round: no mean over them can be "
            "drawn. Give runs with the same eval_every."
        )
    return [[r for r in records if r["round"] in common] for records in seeds]


def band_over_seeds(values_SN) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, least and largest over the S rows [N]; nan counts as missing."""
    values_SN = np.asarray(values_SN, float)
    there_N = np.isfinite(values_SN).any(0)
    mean, low, high = (np.full(values_SN.shape[1], np.nan) for _ in range(3))
    known_SN = values_SN[:, there_N]
    for out, f in ((mean, np.nanmean), (low, np.nanmin), (high, np.nanmax)):
        out[there_N] = f(known_SN, axis=0)
    return mean, low, high


def _sent(record) -> float:
    return float(sum(record["bytes_total"].values()))


def _bytes_axis(panel, ends):
    if not ends:
        panel.set_xticks([0])
    elif max(ends) > MIN_SPACING * min(ends):
        panel.set_xscale("log")
        panel.xaxis.set_major_formatter("{x:g}")


def evaluated(name: str, records: Sequence[Mapping]) -> Sequence[Mapping]:
    """The records of a run.

    Raises:
      UserError: there are none, or some have no bytes.
    """
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
        return panel.axhline(last, color=colour, ls=":", label=line.label)
    if np.any(line.high > line.low):
        band = {"color": colour, "alpha": 0.18, "lw": 0}
        panel.fill_between(line.sent / size, line.low, line.high, **band)
    style = {
        **line_style(index),
        **marker_style(index, len(line.sent)),
        "label": line.label,
    }
    return panel.plot(line.sent / size, line.accuracy, **style)[0]


def _series(records, rule, key):
    values = [r["rules"].get(rule, {}).get(key) for r in records]
    return 100 * np.array([np.nan if v is None else v for v in values], float)


def _one_rule(panel, records, rules, rule):
    rounds, colour = [r["round"] for r in records], COLOURS[0]
    kind = {"color": colour, "mfc": "white", "marker": "o" if len(rounds) == 1 else ""}
    mean, spread = (_series(records, rule, f"client_{k}") for k in ("mean", "std"))
    low, high = np.clip([mean - spread, mean + spread], 0, 100)
    band = {"color": colour, "alpha": 0.15, "lw": 0}
    solid = {**kind, "mfc": colour, "label": "pooled over samples"}
    panel.plot(rounds, _series(records, rule, "pooled"), **solid)
    panel.plot(rounds, mean, "--", label="mean over clients", **kind)
    panel.fill_between(rounds, low, high, label="its ± std over clients", **band)
    for other in rules:
        label = "pooled, other rules" if other == rules[-1] != rule else None
        row = {"color": "0.8", "lw": 0.8, "zorder": 1, "label": label}
        panel.plot(rounds, _series(records, other, "pooled"), **row)
