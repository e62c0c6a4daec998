"""Checks of the replies of clients, before the server uses them.

A reply is accepted if it has the expected types and shapes, its numbers are finite and
at most `wire.bound`, and its counts agree with the partition or the schema of nodes. A
refused reply is a fault of its client and counts as lost. No reply ends a run.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np

from jaxproto import wire
from jaxproto.core.types import Protos, Top, Tree
from jaxproto.errors import UserError, escape_unprintable, shorten
from jaxproto.experiment.build import Experiment
from jaxproto.nodes.data_schema import ClientSizes, NodeSchema
from jaxproto.nodes.flower.node import Payload
from jaxproto.nodes.flower.protocol import Messages
from jaxproto.wrappers.privacy import EXAMPLE, OFF

Parsed = TypeVar("Parsed")
REFUSED = "refused"  # field of a reply with the reason of a refusal
LONGEST_REASON = 1000  # characters of the reason of a refusal
MAX_STEPS = 2**31 - 1  # local steps of a round


class Limits(NamedTuple):
    """Largest numbers that the server accepts of each client."""

    bound: float  # absolute value of a number; `wire.bound`
    train_K: np.ndarray  # training examples
    test_K: np.ndarray  # test examples, or validation examples if there are more
    count_KC: np.ndarray  # training examples of a class
    present_KC: np.ndarray  # whether a client can have a prototype of a class
    sends_loss: bool = True  # False where losses are private


class Update(NamedTuple):
    """Accepted reply to a message of a round."""

    up: Tree | None  # packed upload; None if the server does not use it
    bytes: int
    scalars: int  # of the upload
    loss: float  # nan where losses are private
    steps: int


def partition_limits(exp: Experiment, bound: float, unit: str) -> Limits:
    """Returns the limits of clients that have parts of one data set.

    Args:
      unit: Unit of privacy; noise gives every class a prototype.
    """
    count_KC, *test_counts = exp.counts.splits().values()
    public = exp.dataset.public
    is_public_C = np.zeros(count_KC.shape[1], bool)
    is_public_C[exp.dataset.y[[] if public is None else public]] = True
    present_KC = (count_KC > 0) | is_public_C | (unit != OFF)
    sizes = count_KC.sum(1), np.max([c.sum(1) for c in test_counts], axis=0)
    return Limits(bound, *sizes, count_KC, present_KC, unit != EXAMPLE)


def schema_limits(schema: NodeSchema, bound: float) -> Limits:
    """Returns the limits of nodes with private data, which their schema states."""
    members, absent = {**schema.clients, **schema.late}, ClientSizes(0, 0, ())
    sizes = [members.get(i, absent) for i in range(schema.number)]
    train_K = np.array([size.train for size in sizes])
    test_K = np.array([size.test for size in sizes])
    present_KC = np.array([[c in size.labels for c in schema.labels] for size in sizes])
    return Limits(bound, train_K, test_K, present_KC * train_K[:, None], present_KC)


def accepted_replies(
    replies: Mapping[int, Payload],
    parse: Callable[[int, Payload], Parsed],
    report: Callable[[int, str], object],
) -> dict[int, Parsed]:
    """Returns the parsed replies by client, sorted.

    Args:
      parse: Parses a reply; its errors are the reasons of a refusal.
      report: Receives a refused client and the reason, as one printable line.
    """
    parsed = {}
    for i, reply in sorted(replies.items()):
        why = str(reply.get(REFUSED, ""))
        if REFUSED not in reply:
            try:
                parsed[i] = parse(i, reply)
                continue
            except UserError as e:
                why = f"its message is refused: {e}"
            except Exception as e:  # whatever a client sends, the run goes on
                why = f"its message is malformed: {e!r}"
        report(i, escape_unprintable(why[:LONGEST_REASON]))
    return parsed


def number(reply: Payload, name: str, kind: type, least: float, most: float) -> Any:
    """Returns a number of a reply; raises UserError for another type or range."""
    value: Any = reply[name]
    is_kind = type(value) is kind  # a bool is no int
    if not is_kind or not least <= value <= most:
        raise UserError(
            f"{name} is {shorten(value)}, not {kind.__name__} from {least:g} to "
            f"{most:g}."
        )
    return value


class ReplyParser:
    """Parses the replies of one federation; raises UserError for those it refuses."""

    def __init__(self, messages: Messages, shapes, limits: Limits):
        """Stores the arguments; `shapes` are `stack_uploads.UploadShapes`."""
        self.messages, self.shapes, self.limits = messages, shapes, limits

    def update(self, stage: str, request: Payload, i: int, reply: Payload) -> Update:
        """Parses the reply of client `i` to a message of a round.

        Args:
          stage: "first" (of two exchanges) or "train".
        """
        if reply.get("finite", True) is not True:
            why = f"its training diverged, with loss {shorten(reply.get('loss'))}."
            raise UserError(why)
        bound, loss, steps, like = self.limits.bound, np.nan, 0, self.shapes.first
        if stage == "train":
            like, steps = self.shapes.up, number(reply, "steps", int, 0, MAX_STEPS)
            if self.limits.sends_loss or "loss" in reply:
                loss = number(reply, "loss", float, -bound, bound)
        if not request["reports"]:
            return Update(None, 0, 0, loss, steps)
        up = self.messages.decode(reply["up"], like, request["round"], i)
        message = wire.unpack(up)
        check_upload(message, self.limits, i)
        scalars = int(wire.scalars(message))
        return Update(up, len(reply["up"]), scalars, loss, steps)

    def evaluation(self, request: Payload, i: int, reply: Payload) -> Tree:
        """Parses the evaluation sums of client `i`."""
        exp, examples = self.messages.exp, self.limits.test_K[i]
        cohort = next(n for n, c in enumerate(exp.cohorts) if i in c.ids)
        like = self.shapes.sums[cohort]
        sums = self.messages.decode(reply["up"], like, request["round"], i)
        counting = {metric.name for metric in exp.metrics if metric.counts}
        for path, value in jax.tree.leaves_with_path(sums):
            counts, name = path[1].key in counting, jax.tree_util.keystr(path)
            most = examples * (1.0 if counts else self.limits.bound)
            _check_range(f"the sum {name}", value, 0 if counts else -most, most)
        return sums


def check_upload(message: Tree, limits: Limits, i: int):
    """Raises UserError for a value of an unpacked upload that is out of range."""
    for path, part in jax.tree.leaves_with_path(message, is_leaf=wire.is_message_node):
        name = f"the upload{jax.tree_util.keystr(path)}"
        if isinstance(part, Protos):
            _check_counts(name, part, limits, i)
        values = part.mean if isinstance(part, Protos) else part
        values = part.value if isinstance(part, Top) else values
        if np.issubdtype(values.dtype, np.integer):
            is_id = jax.tree_util.keystr(path[-1:], simple=True) == "id"
            numbers = 0, max(int(limits.train_K[i]), 1)  # of examples, or a flag
            _check_range(name, values, *((i, i) if is_id else numbers))
        elif values.dtype != bool:
            _check_range(name, values, -limits.bound, limits.bound)


def _check_counts(name: str, part: Protos, limits: Limits, i: int):
    most_C = (limits.count_KC if part.disclosed else limits.present_KC)[i]
    for c in np.flatnonzero(np.asarray(part.count) > most_C):
        raise UserError(
            f"{name} has a prototype of class {c} with count {part.count[c]:g}; client "
            f"{i} has at most {int(most_C[c])} there."
        )
    total, train = np.sum(part.count, dtype=np.float64), limits.train_K[i]
    if part.disclosed and total > train:
        raise UserError(f"{name} counts {total:g} examples; client {i} has {train}.")


def _check_range(name: str, values, least: float, most: float):
    values = np.asarray(values) if np.size(values) else np.zeros(1)
    low, high = values.min(), values.max()
    if not (least <= low and high <= most):  # nan is neither
        raise UserError(
            f"{name} has values from {low:g} to {high:g}; accepted are {least:g} to "
            f"{most:g}. For values that are no counts, wire.bound can be increased."
        )
