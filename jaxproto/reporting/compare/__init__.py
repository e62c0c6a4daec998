"""Finished runs side by side, next to the numbers that the papers print."""

from jaxproto.reporting.compare.footnotes import lines
from jaxproto.reporting.compare.rendering import render
from jaxproto.reporting.compare.run_groups import Group, groups
from jaxproto.reporting.compare.tables import Table, rows, table
from jaxproto.storage.run_folder import RunFolder, is_run

load = RunFolder.read

__all__ = [
    "Group",
    "RunFolder",
    "Table",
    "groups",
    "is_run",
    "lines",
    "load",
    "render",
    "rows",
    "table",
]
