"""Finished runs side by side, next to the numbers that the papers print."""

from jaxproto.compare.notes import lines
from jaxproto.compare.rendering import render
from jaxproto.compare.runs import Group, Run, groups, is_run, load
from jaxproto.compare.tables import Table, rows, table

__all__ = [
    "Group",
    "Run",
    "Table",
    "groups",
    "is_run",
    "lines",
    "load",
    "render",
    "rows",
    "table",
]
