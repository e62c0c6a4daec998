"""Kinds of arguments and results of the programs of a run.

A kind states how arrays lie on several devices (`jax.shard_map`) and along the axis of
federations (`jax.vmap`), and how their shapes follow from those of other kinds. So a
table of programs (`programs.Programs`) is enough to map, shard and compile them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from jaxproto.core.types import Tree
from jaxproto.devices.mesh import REPLICATED, SHARDED
from jaxproto.round.gather import ParticipantRows

MAPPED, UNMAPPED = 0, None  # axes of arrays per federation, and of shared ones


class Kind(NamedTuple):
    """Kind of an argument or result of programs."""

    name: str
    spec: Any = REPLICATED  # partition over devices, or a tree of partitions
    axis: int | None = MAPPED  # along which federations are stacked
    shape: Callable[[Any], Tree] | None = None  # from `CohortShapes`; None: a result


FLOATS = Kind("floats")  # of a configuration: the first argument of every program
KEY = Kind("key")  # of the first state of clients or server
CONTEXT = Kind("context")  # number and key of a round
SERVER = Kind("server")
BROADCAST = Kind("broadcast")  # message with its size
DOWN = Kind("down", shape=lambda s: s[BROADCAST].message)  # message after the wire
PARTICIPANTS = Kind("participants")  # `Participation`
EXAMPLES = Kind("examples", axis=UNMAPPED)
DIAGNOSTICS = Kind("diagnostics")  # {name: scalar}
# of a cohort, with a row per client
IDS = Kind("ids", SHARDED, UNMAPPED)
COUNTS = Kind("counts", SHARDED, UNMAPPED)  # training examples per class
CLIENTS = Kind("clients", SHARDED)
SHARDS = Kind("shards", SHARDED, UNMAPPED)  # index tables of training examples
# of a cohort, with a row per participant
CALLS = Kind("calls", [ParticipantRows(REPLICATED, SHARDED, SHARDED)])  # type: ignore[arg-type]
PLACES = Kind("places", shape=lambda s: [call.place for call in s.calls])
ROWS = Kind("rows", SHARDED, shape=lambda s: s.calls[0].clients)  # of one call
ROW_SHARDS = Kind("row_shards", SHARDED, shape=lambda s: s.calls[0].shards)
TRAINED = Kind("trained", SHARDED)  # clients of a call after training
ALL_TRAINED = Kind("all", SHARDED, shape=lambda s: [s[TRAINED]] * len(s.calls))
REPORT = Kind("report", SHARDED)
UPLOAD = Kind("upload", SHARDED)
UPLOADS = Kind("uploads", SHARDED, shape=lambda s: s.uploads)  # of all calls
# of a cohort, with a row per evaluated client
TESTED = Kind("tested", SHARDED)  # clients of each call
EVALUATED = Kind("evaluated", SHARDED, shape=lambda s: s.evaluated)  # of one call
TESTS = Kind("tests", SHARDED, UNMAPPED)  # index tables of test examples
SUMS = Kind("sums", SHARDED)  # of metrics
