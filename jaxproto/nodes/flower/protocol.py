"""Messages of a federation on nodes: their fields and their encoding.

The server sends the broadcast and a client its upload, as bytes of `wire/codec.py`. If
a method has two exchanges, the first one carries the fields of the broadcast that
`pre_upload` reads and the second one the others, so that each field is sent once.
"""

import dataclasses
import json
import struct
import zlib
from collections.abc import Callable, Sequence
from functools import cached_property, partial

import jax
import ml_collections

from jaxproto import wire
from jaxproto.config import check, default_config, upgrade_saved
from jaxproto.core.jax_settings import make_key
from jaxproto.core.types import Data, Tree
from jaxproto.data.partitions.partition import (
    FederationData,
)
from jaxproto.errors import UserError, choose_from
from jaxproto.experiment import build, statelessness
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.check import check_experiment
from jaxproto.experiment.cohorts import CohortPlan
from jaxproto.io import user_files
from jaxproto.methods import METHODS
from jaxproto.round.client import receive
from jaxproto.round.federation import Cohort
from jaxproto.storage import records, workdir
from jaxproto.wire import codec
from jaxproto.wrappers.privacy import EXAMPLE, OFF


def experiment(
    config: ml_collections.ConfigDict, path=None, data: FederationData | None = None
) -> Experiment:
    """Builds the experiment of a configuration on one device.

    Args:
      path: Folder of the server, which holds the vocabulary of a run on texts.
      data: Data; None loads the data set that the configuration names.
    """
    tokens = None if path is None else workdir.tokens(path)
    if config.time.devices != OFF:
        raise UserError(
            f"time.devices is {config.time.devices!r}, but nodes are devices of their "
            f"own, whose seconds are measured; set it to {OFF}."
        )
    exp = build.experiment(config, jax.default_backend(), tokens, data=data)
    if config.privacy.unit == EXAMPLE:
        cohorts = (_with_private_rules(exp, cohort) for cohort in exp.cohorts)
        exp = exp._replace(cohorts=tuple(cohorts))
    check_experiment(exp)
    return exp


def _with_private_rules(exp: Experiment, cohort: CohortPlan) -> CohortPlan:
    """Returns a cohort without rules that read its training examples without noise."""
    method, net = exp.method, cohort.net
    shapes = statelessness.client_shapes(method, net, exp.local, exp.dataset)
    rules = cohort.scoring.rules or statelessness.client_independent_rules(
        method, net, shapes, fields=("memory", "count")
    )
    if not rules:
        raise UserError(
            "privacy.unit is example, but all rules of this method read a node's "
            "training examples without noise. Give it a rule that does not, or set "
            "privacy.unit to client."
        )
    return dataclasses.replace(cohort, scoring=cohort.scoring._replace(rules=rules))


def parse_config(text: str) -> ml_collections.ConfigDict:
    """Parses a configuration that `to_json` wrote, and imports its files of the user.

    Raises:
      UserError: this version has no such field, or a file cannot be imported.
    """
    flat = upgrade_saved(json.loads(text))
    user_files.import_missing(flat["imports"])
    config = default_config(choose_from("method", flat["method.name"], METHODS))
    config.update_from_flattened_dict(flat)
    check(config)
    return config


SERVER = -1  # sender of broadcasts


def versions() -> str:
    """Returns the versions that server and nodes of one federation share."""
    own = records.versions()["jaxproto"] or "not installed"
    return f"jaxproto {own}, jax {jax.__version__}"


def config_hash(config: ml_collections.ConfigDict) -> int:
    """Returns a checksum of configuration and versions, equal in one federation."""
    settings = records.to_json_values(workdir.settings(config))
    return zlib.crc32(repr((versions(), sorted(settings.items()))).encode())


class Messages:
    """Messages of a federation, as packed values and as bytes."""

    def __init__(self, exp: Experiment, cohorts: Sequence[Cohort]):
        """Stores the experiment, of one client or all, and all cohorts."""
        self.exp, self.cohorts = exp, cohorts

    @cached_property
    def down_shapes(self) -> Tree:
        """Returns the shapes of the packed broadcast of one client."""
        method, net = self.exp.method, self.exp.cohorts[0].net
        server = jax.eval_shape(partial(method.init_server, net), make_key(0))
        return jax.eval_shape(lambda a: wire.for_client(self.pack(a), 0), server)

    def pack(self, server: Tree) -> Tree:
        """Returns the packed broadcast."""
        message = self.exp.method.broadcast(server)
        packed = wire.pack(message, self.exp.formats.down)
        return jax.lax.optimization_barrier(packed)

    @cached_property
    def _is_early(self) -> list[bool]:
        """Returns which fields the first exchange of any cohort reads."""
        reads = [_first_reads(self.exp, cohort) for cohort in self.cohorts]
        return [any(field) for field in zip(*reads, strict=True)]

    def split(self, packed: Tree) -> tuple[list, list]:
        """Splits a packed broadcast into the fields of both exchanges."""
        fields = jax.tree.leaves(packed, is_leaf=wire.is_message_node)
        pairs = list(zip(fields, self._is_early, strict=True))
        first = [field for field, early in pairs if early]
        return first, [field for field, early in pairs if not early]

    def join(self, first: list, second: list) -> Tree:
        """Joins the fields of both exchanges to the packed broadcast."""
        a, b = iter(first), iter(second)
        fields = [next(a) if early else next(b) for early in self._is_early]
        shapes = self.down_shapes
        structure = jax.tree.structure(shapes, is_leaf=wire.is_message_node)
        return jax.tree.unflatten(structure, fields)

    def encode(self, packed: Tree, r: int, sender: int = SERVER) -> bytes:
        """Encodes a packed message of a round and a sender; see `decode`."""
        packed = jax.device_get(packed)
        return codec.encode(packed, self._form(sender), _about(r, sender))

    def encode_for(self, packed: Tree, r: int) -> Callable[[int], bytes]:
        """Returns a function from a client id to the bytes of its broadcast."""
        packed = jax.device_get(packed)
        if wire.per_client_parts(packed):
            return lambda id: self.encode(wire.for_client(packed, id), r)
        data = self.encode(packed, r)
        return lambda id: data

    def decode(self, data: bytes, like: Tree, r: int, sender: int = SERVER) -> Tree:
        """Decodes a packed message.

        Args:
          like: Shapes of the packed message.
          r: Number of the round.
          sender: Client id, or SERVER.

        Raises:
          WireError: the bytes are damaged, or of other shapes, round or sender.
        """
        return codec.decode(data, like, self._form(sender), _about(r, sender))

    def _form(self, sender: int) -> str:
        """Returns the number format of the messages of a sender."""
        return self.exp.formats.down if sender == SERVER else self.exp.formats.up


def _about(r: int, sender: int) -> bytes:
    """Returns the round and sender, which the checksum of a message covers."""
    return struct.pack("<2q", r, sender)


def _first_reads(exp: Experiment, cohort: Cohort) -> list[bool]:
    """Returns which fields of the broadcast the first exchange of a cohort reads."""
    method, net = exp.method, cohort.net
    args = statelessness.client_shapes(method, net, exp.local, exp.dataset)

    def first(client, down, examples, shard):
        received, own = receive(method, client, down)
        return method.pre_upload(net, received, Data(examples, shard), own)

    down = statelessness.inputs_used(first, *args)[1]
    fields = jax.tree.leaves(down, is_leaf=wire.is_message_node)
    return [any(jax.tree.leaves(field)) for field in fields]
