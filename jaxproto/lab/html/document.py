"""Pages as text: contents of the runs in the template of `static/`."""

import importlib.util
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from jaxproto.errors import UserError, choose_from
from jaxproto.lab.html import costs, prototypes, results
from jaxproto.lab.html.accuracy import accuracy
from jaxproto.lab.html.client_accuracy import client_accuracy
from jaxproto.lab.html.discover import SkippedRun, discover_runs
from jaxproto.lab.html.partitions import partitions
from jaxproto.lab.html.run_view import SeedGroupView, group_views
from jaxproto.storage import records

MARK = '<meta name="generator" content="jaxproto report">'  # in the first bytes
HINT = "a report needs plotly and jinja2: pip install 'jaxproto[report]'"
STATIC = resources.files("jaxproto.lab.html").joinpath("static")


class Page(NamedTuple):
    """A page, and what is not on it."""

    html: str
    runs: int  # number of runs on it
    left_out: Sequence[SkippedRun]
    notes: Sequence[str]  # on prototypes that are not on it


def render_page(
    workdirs: Sequence[str | Path],
    made_at: str,
    which: str = "first",
    data_dir: str = "",
) -> Page:
    """Returns a page of the runs that the work directories name.

    Args:
      workdirs: Folders of runs, or folders that hold some.
      made_at: Time that the page shows.
      which: Runs of a line whose checkpoint is read: `first`, `all` or `none`.
      data_dir: Folder of the data sets now; "" is where the runs found them.

    Raises:
      UserError: no run can be read, or the extra `report` is not installed.
    """
    if not all(map(importlib.util.find_spec, ("plotly", "jinja2"))):
        raise UserError(HINT)
    import jinja2  # of the extra `report`

    choose_from("choice of checkpoints", which, prototypes.WHICH)
    folders, skipped = discover_runs(workdirs)
    lines = group_views(folders)
    runs = [run for line in lines for run in line.runs]
    evaluated = any(run.records for run in runs)
    comparison, comparison_notes = results.comparison(lines)
    learnt, prototype_notes = prototypes.prototypes(lines, which, data_dir)
    texts = {path.name: path.read_text("utf-8") for path in STATIC.iterdir()}
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    html = environment.from_string(texts["page.html"]).render(
        title=_title(lines),
        alerts=list(results.alerts(lines, skipped)),
        runs=results.run_table(lines),
        accuracy=accuracy(lines) if evaluated else None,
        clients=client_accuracy(lines),
        comparison=comparison,
        comparison_notes=comparison_notes,
        differ=results.differing_settings(runs),
        same=results.shared_settings(runs),
        partitions=partitions(runs),
        prototypes=prototypes.figures(learnt) if learnt else None,
        prototype_notes=prototype_notes,
        bars=costs.figures(lines) if evaluated else None,
        costs=costs.table(lines),
        mark=MARK,
        made_at=made_at,
        version=records.versions()["jaxproto"] or "of a source tree",
        css=texts["page.css"],
        script=texts["page.js"],
        plotly=_plotly(),
    )
    return Page(html.lstrip(), len(folders), skipped, prototype_notes)


def _title(lines: Sequence[SeedGroupView]) -> str:
    """Returns a title such as `fedproto, protonorm on digits: 6 runs`."""
    names = list(dict.fromkeys(line.group.method for line in lines))
    methods = ", ".join(names[:4]) + " and others" * (len(names) > 4)
    datasets = ", ".join(dict.fromkeys(line.dataset for line in lines))
    number = sum(len(line.runs) for line in lines)
    return f"{methods} on {datasets}: {number} run{'s' * (number != 1)}"


def _plotly() -> str:
    """Returns plotly.js, as the package ships it."""
    from plotly import offline  # imported here, as it takes a second

    return offline.get_plotlyjs()
