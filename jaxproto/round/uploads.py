"""Uploads and reports of a round, and functions that join or add them up."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto import wire
from jaxproto.core.hyperparameters import Real
from jaxproto.core.method import Aggregation
from jaxproto.core.types import Array, Tree
from jaxproto.round import gather


class Uploads(NamedTuple):
    """Uploads of a cohort as the server receives them; rows are clients."""

    id: Array  # [R] client ids; unused rows have ids beyond the last client
    up: Tree  # [R, ...] packed, zeros where the client did not report; () with sums
    total: Tree  # sum over the clients if the aggregation has a summand, else ()


class Report(NamedTuple):
    """Diagnostics of the local training of a cohort; rows are clients."""

    id: Array  # [R] client ids; unused rows have ids beyond the last client
    loss: Array  # [R] mean over local steps, 0 without steps
    steps: Array  # [R] local steps
    usable: Array  # [R] loss and upload are finite, and the upload within the bound
    finite: Array  # [R] the parameters are finite numbers
    changed: dict[str, Array]  # part of the parameters -> [R] training changed it
    scalars: Array  # [R] of the upload
    bytes: Array  # [R] of the upload on the wire
    seconds: Array  # [R] simulated, 0 without simulated time


class PreReport(NamedTuple):
    """Sizes of the messages of a cohort before training; rows are clients."""

    id: Array  # [R] client ids
    scalars: Array  # [R] of the message
    bytes: Array  # [R] of the message on the wire
    usable: Array  # [R] the message is finite and within the bound


def all_finite(tree: Tree, bound: Real | None = None) -> Array:
    """Returns whether every floating-point leaf is finite and within the bound."""

    def usable(a):
        if bound is None or not jnp.issubdtype(a.dtype, jnp.floating):
            return jnp.isfinite(a)
        return jnp.abs(a) <= bound

    ok = [jnp.all(usable(a)) for a in jax.tree.leaves(tree)]
    return jnp.all(jnp.asarray(ok)) if ok else jnp.asarray(True)


def mask_report(trains: Array, reports: Array, report: Report) -> Report:
    """Returns the report of a client, with zeros for what it did not do or send."""
    return report._replace(
        steps=report.steps * trains,
        usable=report.usable | ~trains,
        finite=report.finite | ~trains,
        scalars=report.scalars * reports,
        bytes=report.bytes * reports,
        seconds=report.seconds * trains,
    )


def mask_upload(reports: Array, up: Tree) -> Tree:
    """Returns the upload of a client that reports, else zeros of its shape."""
    return jax.tree.map(lambda a: jnp.where(reports, a, jnp.zeros_like(a)), up)


def upload_and_summand(
    aggregation: Aggregation, reports: Array, packed: Tree
) -> tuple[Tree, Tree]:
    """Returns the packed upload and the summand that the server gets from a client.

    The upload is () if the aggregation has a summand; else the summand is ().

    Args:
      reports: Whether the upload arrives; if not, zeros take its place.
    """
    packed = mask_upload(reports, packed)
    if aggregation.summand is None:
        return packed, ()
    return (), aggregation.summand(wire.unpack(packed))


def reduce_uploads(
    aggregation: Aggregation, uploads: Sequence[Uploads], num_rows: int
) -> Tree:
    """Returns all uploads, unpacked, in the order of ids, or the sum of the summands.

    Args:
      num_rows: Rows of all cohorts, without the padding of calls and devices.
    """
    if aggregation.summand is None:
        rows = gather.join_by_id([u.id for u in uploads], [u.up for u in uploads])
        return wire.unpack(jax.tree.map(lambda a: a[:num_rows], rows))
    first, *others = (u.total for u in uploads)
    return jax.tree.map(lambda *parts: sum(parts[1:], start=parts[0]), first, *others)
