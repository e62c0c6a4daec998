"""Callbacks of a run, and writers that log to other programs.

`base.py` defines the events. The module of a writer imports the writer's library, so it
is imported only if a run uses the writer.
"""

from jaxproto.callbacks.base import Callback, RunInfo, Stop
from jaxproto.callbacks.early_stopping import EarlyStopping
from jaxproto.callbacks.registry import WRITERS, callback_factories, make_callbacks
from jaxproto.callbacks.scalars import scalar_points
