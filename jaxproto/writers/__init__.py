"""Who is told of a run while it trains: callbacks, and writers for other programs.

`protocol.py` has the events. A module for each writer imports its library, so that it
is imported when the writer is asked for.
"""

from jaxproto.writers.early import EarlyStopping
from jaxproto.writers.numbers import points
from jaxproto.writers.protocol import Callback, RunInfo, Stop
from jaxproto.writers.registry import WRITERS, made, makers

__all__ = [
    "WRITERS",
    "Callback",
    "EarlyStopping",
    "RunInfo",
    "Stop",
    "made",
    "makers",
    "points",
]
