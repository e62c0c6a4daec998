"""What both sides know of the messages: their fields, the bytes, the two halves.

A message of the server is the broadcast, one of a client its upload: the bytes of
`wire/codec.py`. Where a method has two exchanges, the first has the fields of the
broadcast that it reads, and the second the others, so that each crosses once.
"""

import zlib
from functools import cached_property, partial

import jax
import ml_collections

from jaxproto import wire
from jaxproto.experiment import build, statelessness
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import two_examples
from jaxproto.experiment.data import FederationData
from jaxproto.federation import Cohort
from jaxproto.method import no_pre_upload
from jaxproto.storage import records
from jaxproto.storage import workdir as folder
from jaxproto.types import Data, Tree
from jaxproto.wire import codec


def experiment(
    config: ml_collections.ConfigDict, path=None, given: FederationData | None = None
) -> Experiment:
    """The experiment of a configuration, on the one device of a process.

    Args:
      path: of the server's folder, where a run on texts has its vocabulary.
      given: the data; None are those of the configuration.
    """
    tokens = None if path is None else folder.tokens(path)
    exp = build.experiment(config, jax.default_backend(), tokens, given=given)
    build.check_experiment(exp)
    return exp


def config_hash(config: ml_collections.ConfigDict) -> int:
    """A number that configurations of one federation have in common."""
    settings = records.to_json_values(folder.settings(config))
    return zlib.crc32(repr(sorted(settings.items())).encode())


class Messages:
    """The messages of a federation, as values and as bytes."""

    def __init__(self, exp: Experiment):
        """Of the federation, or of a client of it."""
        self.exp = exp
        self.twice = exp.method.pre_upload is not no_pre_upload

    @cached_property
    def down(self) -> Tree:
        """Shapes of the packed broadcast."""
        method, net = self.exp.method, self.exp.cohorts[0].net
        server = jax.eval_shape(partial(method.init_server, net), jax.random.key(0))
        return jax.eval_shape(self.packed, server)

    def packed(self, server: Tree) -> Tree:
        """The broadcast as it is sent."""
        message = self.exp.method.broadcast(server)
        packed = wire.pack(message, self.exp.formats.down)
        return jax.lax.optimization_barrier(packed)

    def halves(self, cohorts: tuple[Cohort, ...]) -> list[bool]:
        """Which fields of the broadcast the first of two exchanges reads."""
        found = [_first_reads(self.exp, cohort) for cohort in cohorts]
        return [any(of) for of in zip(*found, strict=True)]

    def split(self, packed: Tree, first: list[bool]) -> tuple[list, list]:
        """The fields of both halves."""
        fields = jax.tree.leaves(packed, is_leaf=wire.is_message_node)
        each = list(zip(fields, first, strict=True))
        return [a for a, of in each if of], [a for a, of in each if not of]

    def joined(self, first: list[bool], one: list, other: list) -> Tree:
        """The packed broadcast of both halves."""
        a, b = iter(one), iter(other)
        fields = [next(a) if of else next(b) for of in first]
        form = jax.tree.structure(self.down, is_leaf=wire.is_message_node)
        return jax.tree.unflatten(form, fields)

    def encode(self, packed: Tree, way: str) -> bytes:
        """The bytes of a packed message.

        Args:
          way: "up" or "down".
        """
        return codec.encode(jax.device_get(packed), getattr(self.exp.formats, way))

    def decode(self, data: bytes, like: Tree, way: str) -> Tree:
        """A packed message of its bytes.

        Raises:
          WireError: they are damaged, or of other fields.
        """
        return codec.decode(data, like, getattr(self.exp.formats, way))


def _first_reads(exp: Experiment, cohort: Cohort) -> list[bool]:
    """Which fields of the broadcast the first exchange of a cohort reads."""
    method, net, local = exp.method, cohort.net, exp.local
    shapes = jax.tree.map(
        lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), two_examples(exp.dataset)
    )
    shown = statelessness.client_shapes(
        method, net, local, exp.spec.num_classes, shapes, 2
    )

    def first(client, down, examples, shard):
        own = client.replace(
            params=method.receive(client.params, down),
            norm=method.receive_stats(client.norm, down),
        )
        return method.pre_upload(net, own, Data(examples, shard), down)

    marks = jax.tree.unflatten(
        jax.tree.structure(shown), statelessness.inputs_used(first, *shown)
    ).down
    fields = jax.tree.leaves(marks, is_leaf=wire.is_message_node)
    return [any(jax.tree.leaves(field)) for field in fields]
