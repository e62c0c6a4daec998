"""Finished runs side by side, next to the numbers that the papers print."""

from jaxproto.compare.notes import lines
from jaxproto.compare.rendering import render
from jaxproto.compare.runs import Group, groups
from jaxproto.compare.tables import Table, rows, table
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
