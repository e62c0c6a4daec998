"""Settings of the runs: those that differ, and those that all share."""

from collections.abc import Mapping, Sequence

from jaxproto.config.factory_fields import all_fields
from jaxproto.errors import escape_unprintable
from jaxproto.reporting.compare.run_groups import differing_fields
from jaxproto.reporting.html.table import MISSING, Table
from jaxproto.storage.run_folder import RunFolder

IGNORED = {"name"}  # fields that are not shown: runs have names of their own
FIRST = ("method.name", "data.name", "seed")  # first columns


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
