"""Tables of the runs: progress, comparison of finished ones, settings; alerts."""

from collections.abc import Iterator, Mapping, Sequence

from jaxproto.config.factory_fields import all_fields
from jaxproto.errors import UserError, escape_unprintable, first_few
from jaxproto.lab import compare
from jaxproto.lab.compare import baselines
from jaxproto.lab.compare.run_groups import differing_fields
from jaxproto.lab.html.discover import SkippedRun
from jaxproto.lab.html.run_view import SeedGroupView, progress
from jaxproto.lab.html.table import Table, per_cent
from jaxproto.storage import records
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status
from jaxproto.summary import reference_accuracy
from jaxproto.summary.table_formats import MISSING

IGNORED = {"name"}  # fields that are not shown: runs have names of their own
FIRST = ("method.name", "data.name", "seed")  # first columns


def run_table(lines: Sequence[SeedGroupView]) -> Table:
    """Returns a row per run with its progress and accuracies."""
    pairs = [(line.label, run) for line in lines for run in line.runs]
    last = [run.last for _, run in pairs if run.last]
    rules = list(dict.fromkeys(rule for record in last for rule in record["rules"]))
    rows = []
    for label, run in pairs:
        cells = [_accuracy(run, rule) for rule in rules]
        rows.append((run.name, label, str(run.config["seed"]), progress(run), *cells))
    head = ("run", "method", "seed", "state", *(f"{rule} %" for rule in rules))
    caption = "Runs: last evaluation, pooled over test examples, and (the best one: by "
    caption += "validation accuracy, or by test accuracy in runs without)"
    return Table(caption, head, rows)


def _accuracy(run: RunFolder, rule: str) -> str:
    digest = records.rule_summary(run.records).get(rule, {}).get("pooled", {})
    if digest.get("best") is None:
        return MISSING
    return f"{per_cent(digest['final'])} ({per_cent(digest['best'])})"


def comparison(lines: Sequence[SeedGroupView]) -> tuple[Table | None, tuple[str, ...]]:
    """Returns the table of `jaxproto compare` with published numbers, and its notes."""
    try:
        table = compare.table([line.group for line in lines])
    except UserError as e:
        return None, (str(e),)
    head, *rows = (
        [escape_unprintable(str(c)) for c in r] for r in (table.head, *table.rows)
    )
    caption = "Runs that have finished, and what papers print for the same setting"
    return Table(caption, head, rows), table.notes


def differing_settings(runs: Sequence[RunFolder]) -> Table:
    """Returns a row per run, a column per field in which they differ."""
    fields = [k for k in differing_fields([r.config for r in runs]) if k not in IGNORED]
    order = [k for k in FIRST if k in fields] + [k for k in fields if k not in FIRST]
    rows = [(run.name, *(_text(run.config, k) for k in order)) for run in runs]
    return Table("Fields that differ between runs", ("run", *order), rows)


def shared_settings(runs: Sequence[RunFolder]) -> Table:
    """Returns the fields that all runs share: value, default if it differs, meaning.

    Unknown fields, of an older version or a user's method, have neither default nor
    meaning.
    """
    config = runs[0].config
    ignored = {*differing_fields([run.config for run in runs]), *IGNORED}
    fields, rows = all_fields(str(config["method.name"])), []
    for name in sorted(config.keys() - ignored):
        default = meaning = ""
        if field := fields.get(name):
            meaning = field.help
            if field.default != config[name]:
                default = escape_unprintable(str(field.default)) or '""'
        rows.append((name, _text(config, name), default, meaning))
    caption = "Fields that all runs share" if len(runs) > 1 else "Fields"
    return Table(caption, ("field", "value", "default", "meaning"), rows)


def _text(config: Mapping, field: str) -> str:
    return escape_unprintable(str(config[field])) if field in config else MISSING


def alerts(
    lines: Sequence[SeedGroupView], skipped: Sequence[SkippedRun]
) -> Iterator[str]:
    """Yields warnings of runs: diverged, collapsed, broken, not ended or left out."""
    runs = [run for line in lines for run in line.runs]
    for run in runs:
        if run.summary and run.status() is Status.DIVERGED:
            reason = escape_unprintable(str(run.summary.get("reason", "no reason")))
            yield f"{run.name} diverged: {reason}"
    for run in runs:
        majority = baselines.majority_share(run)
        for rule, since in baselines.collapsed_rules(run, majority).items():
            last = run.last["rules"].get(rule, {}).get("pooled") if run.last else None
            share = "" if last is None else f" {per_cent(last)} %"
            means = reference_accuracy.MEANS
            yield f"{run.name} collapsed: {rule}{share} since round {since} {means}."
        for line in (run.summary or {}).get("warnings", []):
            yield f"{run.name}: {escape_unprintable(line)}."
    if live := [run.name for run in runs if not run.status().ended]:
        yield (
            f"Not ended: {first_few(live)}. The page shows what was there when it was "
            "made; the same command makes it again."
        )
    yield from (f"Left out: {path}: {why}" for path, why in skipped)
