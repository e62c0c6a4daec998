"""The settings of the runs: those that differ, and those that all share."""

from collections.abc import Mapping, Sequence

from jaxproto.config.factory_fields import all_fields
from jaxproto.config.fields import Field
from jaxproto.errors import escape_unprintable
from jaxproto.reporting.compare.run_groups import differing_fields
from jaxproto.reporting.html.table import MISSING, Table
from jaxproto.storage.run_folder import RunFolder

SILENT = {"name"}  # of the configuration; the runs have names of their own
FIRST = ("method.name", "data.name", "seed")  # of the columns


def differing_settings(runs: Sequence[RunFolder]) -> Table:
    """A row per run, a column per field in which they differ."""
    configs = [one.config for one in runs]
    fields = [k for k in differing_fields(configs) if k not in SILENT]
    order = [k for k in FIRST if k in fields] + [k for k in fields if k not in FIRST]
    rows = [(one.name, *(_text(one.config, k) for k in order)) for one in runs]
    return Table("Fields that differ between runs", ("run", *order), rows)


def shared_settings(runs: Sequence[RunFolder]) -> Table:
    """The fields that all runs have in common: value, default if another, meaning."""
    configs = [one.config for one in runs]
    apart, first = {*differing_fields(configs), *SILENT}, configs[0]
    fields = all_fields(str(first["method.name"]))
    rows = [
        (k, _text(first, k), *_said(fields.get(k), first[k]))
        for k in sorted(first)
        if k not in apart
    ]
    caption = "Fields that all runs share" if len(runs) > 1 else "Fields"
    return Table(caption, ("field", "value", "default", "meaning"), rows)


def _text(config: Mapping, field: str) -> str:
    return escape_unprintable(str(config[field])) if field in config else MISSING


def _said(field: Field | None, value) -> tuple[str, str]:
    """The default where it is another, and the meaning; of unknown fields nothing."""
    if field is None:  # of an older version, or of a method of one's own
        return "", ""
    usual = escape_unprintable(str(field.default)) or '""'
    return "" if field.default == value else usual, field.help
