"""Saved runs, opened from their folders by `jaxproto.load`."""

from jaxproto.saved_runs.metrics_table import Table
from jaxproto.saved_runs.saved_client import ClientData, ExampleSet, SavedClient
from jaxproto.saved_runs.saved_run import SavedRun, load
from jaxproto.storage import packed_runs as packed_runs  # registers its finder
