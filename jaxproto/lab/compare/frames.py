"""A comparison as pandas data frames: a row per method, or a row per number of a run.

Mean and deviation over seeds are numbers as the printed table has them; the frame by
seed has those of the records.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import pandas as pd

from jaxproto.lab import leave_out
from jaxproto.lab.compare import measures, run_groups
from jaxproto.lab.compare.columns import Column, Part, TableRequest
from jaxproto.lab.compare.measures import AVERAGES, STATISTICS
from jaxproto.lab.compare.run_groups import SeedGroup
from jaxproto.lab.compare.tables import Table, table
from jaxproto.storage.run_folder import RunFolder

BY_SEED = (
    "method",  # as in configurations
    "label",  # as in the table
    "dataset",
    "rounds",
    "seed",
    "rule",
    "metric",
    "average",
    "statistic",
    "value",  # as in the records: a share of 0 to 1, not in %
    "workdir",
)


def compare(
    *workdirs: str | Path, by_seed: bool = False, rounds: int | None = None, **options
) -> pd.DataFrame:
    """Returns a data frame of finished runs: `jaxproto compare` from Python.

    The frame has a row per method, indexed by its name, and a column per number of the
    table: means over seeds, standard deviations in columns `... std`, papers of
    published numbers in columns `... source`. `frame.attrs["notes"]` has the notes.

    Args:
      *workdirs: directories of runs, or of folders of runs such as a sweep's.
      by_seed: whether the frame has a row per run, rule, average and statistic instead,
        with the columns `BY_SEED`.
      rounds: runs as they were after so many rounds.
      **options: as of `tables.table`, such as `metric="macro_f1"`.

    Raises:
      UserError: an unknown option, or no finished run.
    """
    made = table(run_groups.group_by_seed(read_runs(workdirs, rounds)), **options)
    return by_seed_frame(made.request) if by_seed else frame(made)


def read_runs(
    workdirs: Iterable[str | Path], rounds: int | None = None, needs: str = ""
) -> list[RunFolder]:
    """Returns the runs of directories; those that cannot be read are left out.

    Args:
      workdirs: as of `compare`.
      rounds: as of `compare`; None for all.
      needs: as of `leave_out.read_run`.
    """
    needs = needs if rounds is None else "evaluations"
    read = partial(leave_out.read_run, needs=needs)
    runs = leave_out.read_all(leave_out.find_runs(workdirs), read)
    return runs if rounds is None else [run_groups.until(run, rounds) for run in runs]


def frame(table: Table) -> pd.DataFrame:
    """Returns the numbers of a table, as printed, with its notes as an attribute."""
    names = pd.Index(table.request.names, name=table.head[0])
    columns = dict(field for column in table.columns for field in _fields(column))
    result = pd.DataFrame(columns, index=names)
    result.attrs["notes"] = table.notes
    return result


def _fields(column: Column) -> Iterator[tuple[str, list]]:
    """Yields names and values: numbers, and deviations and sources if any."""
    for n in range(max([1, *(len(entry.parts) for entry in column.entries)])):
        parts = [e.parts[n] if n < len(e.parts) else Part("") for e in column.entries]
        name = f"{column.name} {n + 1}" if n else column.name
        suffixes = ("", " std", " source")
        for suffix, *texts in zip(suffixes, *parts, strict=True):
            if not suffix or any(texts):
                yield name + suffix, _values(texts)


def _values(texts: list[str]) -> list:
    """Returns numbers, or words if one text is no number; None for an empty text."""
    try:
        return [float(text.replace(",", "")) if text else None for text in texts]
    except ValueError:
        return [text or None for text in texts]


def by_seed_frame(request: TableRequest) -> pd.DataFrame:
    """Returns a row per run, rule, average and statistic, of all of these."""
    lines = (line for g in request.groups for line in _lines(g, request))
    return pd.DataFrame(lines, columns=[*BY_SEED])


def _lines(group: SeedGroup, request: TableRequest) -> Iterator[tuple]:
    measure, metric = request.measures[0], request.measures[0].metric
    for run in sorted(group.finished, key=lambda run: run.config["seed"]):
        length, seed = run.config["rounds"], run.config["seed"]
        row = (group.method, group.label, group.dataset, length, seed)
        known = measures.rules(run, metric)
        for rule in (rule for rule in request.rules if rule in known):
            for average in AVERAGES:
                digest = measures.summarize_history(
                    run, rule, measure._replace(average=average)
                )
                for name, statistic in STATISTICS.items():
                    value = statistic(digest) if digest else None
                    yield (*row, rule, metric, average, name, value, str(run.path))
