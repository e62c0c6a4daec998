"""The page as a text: what was read of the runs, in the template of `static/`."""

import importlib.util
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from jaxproto.errors import UserError, choose_from
from jaxproto.reporting.html import (
    accuracy,
    client_accuracy,
    costs,
    discover,
    partitions,
    prototype_figures,
    prototypes,
    results,
    settings,
)
from jaxproto.reporting.html.discover import DiscoveredRuns, SkippedRun
from jaxproto.reporting.html.output import MARK
from jaxproto.reporting.html.run_view import SeedGroupView, group_views
from jaxproto.storage import records

HINT = "a report needs plotly and jinja2: pip install 'jaxproto[report]'"
STATIC = resources.files("jaxproto.reporting.html").joinpath("static")


class Page(NamedTuple):
    """A page, and what it is of."""

    html: str
    runs: int
    left_out: tuple[SkippedRun, ...]


def render_page(
    workdirs: Sequence[str | Path],
    made_at: str,
    which: str = "first",
    data_dir: str = "",
) -> Page:
    """A page of the runs that the work directories name.

    Args:
      workdirs: of runs, or folders that hold some.
      made_at: the time, which the page says.
      which: runs of a line whose checkpoint is read: `first`, `all` or `none`.
      data_dir: where the data sets are now; "" is where the runs found them.

    Raises:
      UserError: no run can be read, or the extra `report` is not installed.
    """
    if not all(map(importlib.util.find_spec, ("plotly", "jinja2"))):
        raise UserError(HINT)
    choose_from("choice of checkpoints", which, prototypes.WHICH)
    there = discover.discover_runs(workdirs)
    rows = group_views(there.runs)
    shown = _shown(there, rows, which, data_dir)
    html = _template().render(
        **shown,
        mark=MARK,
        made_at=made_at,
        version=records.versions()["jaxproto"] or "of a source tree",
        css=_static("page.css"),
        script=_static("page.js"),
        plotly=_plotly(),
    )
    return Page(html.lstrip(), len(there.runs), there.left_out)


def _shown(
    there: DiscoveredRuns, rows: list[SeedGroupView], which: str, data_dir: str
) -> dict:
    """Returns what the template asks for."""
    runs = [one for line in rows for one in line.runs]
    table, notes = results.comparison(rows)
    learnt, of_prototypes = prototypes.prototypes(rows, which, data_dir)
    evaluated = any(one.records for one in runs)
    return {
        "title": _title(rows),
        "alerts": results.alerts(rows, there.left_out),
        "runs": results.run_table(rows),
        "accuracy": accuracy.accuracy(rows) if evaluated else None,
        "clients": client_accuracy.client_accuracy(rows),
        "comparison": table,
        "comparison_notes": notes,
        "differ": settings.differing_settings(runs),
        "same": settings.shared_settings(runs),
        "partitions": partitions.partitions(runs),
        "prototypes": prototype_figures.shown(learnt) if learnt else None,
        "prototype_notes": of_prototypes,
        "bars": costs.figures(rows) if evaluated else None,
        "costs": costs.table(rows),
    }


def _title(rows: Sequence[SeedGroupView]) -> str:
    """Such as `fedproto, protonorm on digits: 6 runs`."""
    names = list(dict.fromkeys(line.group.method for line in rows))
    told = ", ".join(names[:4]) + " and others" * (len(names) > 4)
    datasets = ", ".join(dict.fromkeys(line.dataset for line in rows))
    number = sum(len(line.runs) for line in rows)
    return f"{told} on {datasets}: {number} run{'s' * (number != 1)}"


def _template():
    """The template; what it is given is escaped, unless it says `safe`."""
    import jinja2  # of an extra

    made = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return made.from_string(_static("page.html"))


def _static(name: str) -> str:
    return STATIC.joinpath(name).read_text("utf-8")


def _plotly() -> str:
    """plotly.js, as the package ships it."""
    from plotly import offline  # takes a second: only who needs it pays

    return offline.get_plotlyjs()
