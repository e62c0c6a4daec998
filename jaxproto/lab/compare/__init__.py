"""Comparison of finished runs with each other and with published numbers."""

from jaxproto.lab.compare.frames import compare, frame
from jaxproto.lab.compare.rendering import render
from jaxproto.lab.compare.run_groups import SeedGroup, group_by_seed
from jaxproto.lab.compare.tables import Table, table
from jaxproto.storage import packed_runs as packed_runs  # registers its finder
from jaxproto.storage.run_folder import RunFolder

load = RunFolder.read
