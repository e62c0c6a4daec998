"""Runs opened from their folders: `jaxproto.load`.

`run.py` is what a user holds; `opened.py` reads the folder; `client.py` and
`joining.py` are clients that were in the run and clients that were not.
"""

from jaxproto.saved.client import ClientData, Part, SavedClient
from jaxproto.saved.run import SavedRun, load
from jaxproto.saved.table import Table

__all__ = ["ClientData", "Part", "SavedClient", "SavedRun", "Table", "load"]
