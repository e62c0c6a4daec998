"""Uploads of a round: what a client sends, and how the server joins them."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto import gather, wire
from jaxproto.method import Aggregation
from jaxproto.types import Array, Tree


class Uploads(NamedTuple):
    """What the server has of a cohort."""

    id: Array  # [R] client ids, more than there are where a row is not used
    up: Tree  # [R, ...] packed, zeros where the client did not report; or () and
    total: Tree  # the sum over the clients, where the aggregation has a summand


class Report(NamedTuple):
    """What a cohort reports of its local training; rows are clients."""

    id: Array  # [R] client ids, more than there are where a row is not used
    loss: Array  # [R] mean over local steps, 0 for who took none
    steps: Array  # [R] local steps
    finite: Array  # [R] loss, upload and parameters are finite numbers
    sent: Array  # [R] scalars
    bytes: Array  # [R] of the upload on the wire


class PreReport(NamedTuple):
    """What a cohort reports of its messages before training; rows are clients."""

    id: Array  # [R]
    sent: Array  # [R] scalars
    bytes: Array  # [R]


def all_finite(tree: Tree) -> Array:
    """Whether every floating-point leaf is finite."""
    ok = [jnp.all(jnp.isfinite(a)) for a in jax.tree.leaves(tree)]
    return jnp.all(jnp.asarray(ok)) if ok else jnp.asarray(True)


def mask_upload(reports: Array, up: Tree) -> Tree:
    """The upload of a client that reports; zeros, "not there", of another."""
    return jax.tree.map(lambda a: jnp.where(reports, a, jnp.zeros_like(a)), up)


def upload_and_summand(
    aggregation: Aggregation, reports: Array, packed: Tree
) -> tuple[Tree, Tree]:
    """Returns what the server gets of a client: its packed upload, and a summand.

    Args:
      reports: whether the upload arrives; else it is zeros.
    """
    packed = mask_upload(reports, packed)
    if aggregation.summand is None:
        return packed, ()
    return (), aggregation.summand(wire.unpack(packed))


def reduce_uploads(
    aggregation: Aggregation, uploads: Sequence[Uploads], num_rows: int
) -> Tree:
    """Returns all uploads in the order of ids, or the sum of the summands.

    Args:
      num_rows: of all cohorts; lanes and devices may have a row more.
    """
    if aggregation.summand is None:
        return join_uploads(uploads, num_rows)
    first, *others = (u.total for u in uploads)
    return jax.tree.map(lambda *parts: sum(parts[1:], start=parts[0]), first, *others)


def join_uploads(uploads: Sequence[Uploads], num_rows: int) -> Tree:
    """Returns the packed messages of all cohorts as the server has them, by id."""
    rows = gather.join_by_id([u.id for u in uploads], [u.up for u in uploads])
    return wire.unpack(jax.tree.map(lambda a: a[:num_rows], rows))
