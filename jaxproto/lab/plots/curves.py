"""Curves of accuracy over rounds, against bytes and against simulated seconds."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxproto.errors import UserError, choose_from
from jaxproto.lab.plots import layout
from jaxproto.lab.plots.curve_bands import Band, band, bands
from jaxproto.lab.plots.style import COLOURS, new_figure
from jaxproto.round.simulated_time import ELAPSED

Runs = Mapping[str, Sequence[Sequence[Mapping]]]  # name -> records of each seed
UNITS = {"GB": 1e9, "MB": 1e6, "kB": 1e3, "B": 1.0}
SECONDS = {"h": 3600.0, "min": 60.0, "s": 1.0}
MIN_SPACING = 20  # factor between the last x of runs above which x is logarithmic


def accuracy_over_rounds(path: str | Path, records: Sequence[Mapping], name: str = ""):
    """Draws the accuracy of each rule in a panel, with those of other rules in grey.

    Args:
      records: Records of `metrics.jsonl`, at least one.
      name: Title of the picture.
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


def accuracy_against_bytes(path: str | Path, runs: Runs, rule: str | None = None):
    """Draws pooled accuracy against the bytes sent so far, up and down.

    One run has a panel with a line per rule. Several runs have a panel per rule with a
    line per run, on a log scale if one sends far more than another. A run that sends
    nothing is a dashed line at its last accuracy. Lines are means over seeds, with a
    band from the least to the largest.

    Args:
      runs: {name: for each of its seeds, records of `metrics.jsonl`}.
      rule: Rule to draw; None draws all.

    Raises:
      UserError: a run has no records, or none with bytes; no run has the rule.
    """
    panels = curves(runs, rule, lambda r: float(sum(r["bytes_total"].values())))
    _accuracy_against(path, runs, panels, "sent so far, both ways", UNITS)


def accuracy_against_seconds(path: str | Path, runs: Runs, rule: str | None = None):
    """Draws pooled accuracy against simulated time, in panels of runs or rules.

    Args:
      runs: {name: for each of its seeds, records of `metrics.jsonl`}.
      rule: Rule to draw; None draws all.

    Raises:
      UserError: a run has no records, or some without simulated seconds.
    """
    for name, seeds in runs.items():
        if not all(ELAPSED in r.get("every_round", {}) for rows in seeds for r in rows):
            raise UserError(
                f"run {name!r} has no simulated seconds in its records. Leave it out, "
                "or run it again with time.devices."
            )
    panels = curves(runs, rule, lambda record: record["every_round"][ELAPSED][-1])
    _accuracy_against(path, runs, panels, "simulated time", SECONDS)


def _accuracy_against(
    path: str | Path,
    runs: Runs,
    panels: Mapping[str, list[Band]],
    what: str,
    units: Mapping[str, float],
):
    """Draws panels with x in the largest unit that the longest run reaches."""
    ends = [b.x[-1] for rows in panels.values() for b in rows if len(b.x)]
    unit, size = largest_unit(max(ends, default=1), units)
    shown = {
        title: [b._replace(x=[x / size for x in b.x]) for b in rows]
        for title, rows in panels.items()
    }
    log = bool(ends) and max(ends) > MIN_SPACING * min(ends)
    seeded = any(len(seeds) > 1 for seeds in runs.values())
    note = "mean over seeds, least to largest" if seeded else ""
    bands(path, shown, f"{what} ({unit})", "test accuracy (%)", note, log=log)


def largest_unit(value: float, units: Mapping[str, float]) -> tuple[str, float]:
    """Returns the largest unit that a value reaches, or the smallest, and its size.

    Args:
      units: {name: size}, largest first.
    """
    reached = [unit for unit in units.items() if value >= unit[1]]
    return reached[0] if reached else list(units.items())[-1]


def curves(
    runs: Runs, rule: str | None, so_far: Callable[[Mapping], float]
) -> dict[str, list[Band]]:
    """Returns the panels of pooled accuracy against a number of each record.

    Args:
      so_far: Function of a record that returns its x, such as the bytes sent so far.
    """
    check_evaluations(runs)
    rules_of = {name: seeds[0][-1]["rules"] for name, seeds in runs.items()}
    rules = list(dict.fromkeys(k for names in rules_of.values() for k in names))
    rules = rules if rule is None else [choose_from("rule", rule, rules)]
    panels: dict[str, list[Band]] = {}
    for name, seeds in runs.items():
        common = shared_rounds(name, seeds)
        x = np.mean([[so_far(r) for r in rows] for rows in common], 0)
        for key in (k for k in rules if k in rules_of[name]):
            panel, label = (name, key) if len(runs) == 1 else (f"rule {key}", name)
            values = np.array([accuracies(rows, key, "pooled") for rows in common])
            line = band(label, x, values)
            line = line if x[-1] > 0 else _line_across(line)
            panels.setdefault(panel, []).append(line)
    return panels


def _line_across(line: Band) -> Band:
    """Returns the last known accuracy of a run that sends nothing as a line across."""
    known = np.flatnonzero(np.isfinite(line.mean))
    last = [known[-1] if len(known) else -1]
    mean, low, high = line.mean[last], line.low[last], line.high[last]
    return Band(f"{line.label} (sends nothing)", [], mean, low, high, "across")


def shared_rounds(name: str, seeds: Sequence[Sequence[Mapping]]) -> list[list[Mapping]]:
    """Returns the records of each seed in the rounds that all seeds evaluated.

    Raises:
      UserError: The seeds share no round.
    """
    common = set.intersection(*[{r["round"] for r in records} for records in seeds])
    if not common:
        raise UserError(
            f"the seeds of run {name!r} share no evaluated round: no mean over them "
            "can be drawn. Give runs with the same eval_every."
        )
    return [[r for r in records if r["round"] in common] for records in seeds]


def check_evaluations(runs: Runs):
    """Raises UserError if a run has no records, or some have no bytes."""
    for name, records in ((k, rows) for k, seeds in runs.items() for rows in seeds):
        if not records:
            raise UserError(
                f"run {name!r} has no evaluation yet: nothing to draw. Leave it out or "
                "wait for its first one (eval_every)."
            )
        without = [r["round"] for r in records if "bytes_total" not in r]
        if without:
            raise UserError(
                f"run {name!r} has no bytes_total in the record of round {without[0]}: "
                "it is of a version that did not count bytes. Run it again or leave it "
                "out."
            )


def accuracies(records: Sequence[Mapping], rule: str, key: str) -> np.ndarray:
    """Returns an accuracy of a rule in each record, in per cent; nan where missing."""
    values = [r["rules"].get(rule, {}).get(key) for r in records]
    return 100 * np.array([np.nan if v is None else v for v in values], float)


def _one_rule(panel, records, rules, rule):
    """Draws the accuracies of a rule, and the pooled ones of other rules in grey."""
    rounds, colour = [r["round"] for r in records], COLOURS[0]
    style = {"color": colour, "mfc": "white", "marker": "o" if len(rounds) == 1 else ""}
    mean, spread = (accuracies(records, rule, f"client_{k}") for k in ("mean", "std"))
    low, high = np.clip([mean - spread, mean + spread], 0, 100)
    shade = {"color": colour, "alpha": 0.15, "lw": 0}
    solid = {**style, "mfc": colour, "label": "pooled over samples"}
    panel.plot(rounds, accuracies(records, rule, "pooled"), **solid)
    panel.plot(rounds, mean, "--", label="mean over clients", **style)
    panel.fill_between(rounds, low, high, label="its ± std over clients", **shade)
    for other in rules:
        label = "pooled, other rules" if other == rules[-1] != rule else None
        grey = {"color": "0.8", "lw": 0.8, "zorder": 1, "label": label}
        panel.plot(rounds, accuracies(records, other, "pooled"), **grey)
