"""Comparison of finished runs with each other and with published numbers."""

from jaxproto.reporting.compare.rendering import render
from jaxproto.reporting.compare.run_groups import SeedGroup, group_by_seed
from jaxproto.reporting.compare.tables import Table, table
from jaxproto.storage.run_folder import RunFolder

load = RunFolder.read
