"""Saved runs, opened from their folders by `jaxproto.load`."""

from jaxproto.lab.saved_runs.saved_client import ClientData, ExampleSet, SavedClient
from jaxproto.lab.saved_runs.saved_run import SavedRun, load
from jaxproto.storage import packed_runs as packed_runs  # registers its finder
