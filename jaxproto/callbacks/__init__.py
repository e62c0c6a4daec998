"""Who is told of a run while it trains: callbacks, and writers for other programs.

`protocol.py` has the events. A module for each writer imports its library, so that it
is imported when the writer is asked for.
"""

from jaxproto.callbacks.base import Callback, RunInfo, Stop
from jaxproto.callbacks.early_stopping import EarlyStopping
from jaxproto.callbacks.registry import WRITERS, callback_factories, make_callbacks
from jaxproto.callbacks.scalars import scalar_points

__all__ = [
    "WRITERS",
    "Callback",
    "EarlyStopping",
    "RunInfo",
    "Stop",
    "callback_factories",
    "make_callbacks",
    "scalar_points",
]
