"""Runs opened from their folders: `jaxproto.load`.

`run.py` is what a user holds; `opened.py` reads the folder; `client.py` and
`joining.py` are clients that were in the run and clients that were not.
"""

from jaxproto.saved_runs.metrics_table import Table
from jaxproto.saved_runs.saved_client import ClientData, ExampleSet, SavedClient
from jaxproto.saved_runs.saved_run import SavedRun, load

__all__ = ["ClientData", "ExampleSet", "SavedClient", "SavedRun", "Table", "load"]
