"""How the clients of a cohort run: one by one, in chunks, or all in step.

Every form computes the same formula: each client takes its own steps on its own
batches, and padding changes nothing. In exact arithmetic the results are equal; in
floating point they are equal up to rounding, because XLA adds the products of several
clients in another order than those of one. Training amplifies rounding from step to
step (benchmarks/RESULTS.md), so runs to be compared to the bit need the same form and
the same device. Rows must be sorted by local steps, most first, for the padded forms
to waste little.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxproto.types import Tree

LIMIT = np.iinfo(np.int32).max  # more steps than any client takes


Steps = Sequence[int] | np.ndarray  # of each client


class ClientStages(NamedTuple):
    """Local training of one client in three parts."""

    start: Callable  # *client -> session
    steps: Callable  # session, first, last, *client -> session
    end: Callable  # session, *client -> result


class ExecutionMode(NamedTuple):
    """Maps over the leading axis of clients."""

    each: Callable[[Callable], Callable]  # f of one client -> f of all
    train: Callable[[ClientStages], Callable]  # stages of one client -> training of all
    steps: Callable[[Steps], int]  # of each client -> run, padding included


class Segment(NamedTuple):
    """The first `clients` rows take the steps from `first` to before `last`."""

    first: int
    last: int
    clients: int


def mapped(each: Callable[[Callable], Callable], size: int | None) -> ExecutionMode:
    """A mode that trains each client from start to end under one map.

    Args:
      each: f of one client -> f of all.
      size: clients in step at a time, None for all.
    """

    def train(stages):
        def whole(*client):
            session = stages.steps(stages.start(*client), 0, LIMIT, *client)
            return stages.end(session, *client)

        return each(whole)

    def steps(steps_K):
        n = size or max(len(steps_K), 1)
        chunks = [steps_K[i : i + n] for i in range(0, len(steps_K), n)]
        return sum(max(c) * len(c) for c in chunks)

    return ExecutionMode(each, train, steps)


def one_by_one() -> ExecutionMode:
    """One after the other, each with its own number of steps (fast on CPU)."""
    return mapped(lambda f: lambda *args: lax.map(lambda a: f(*a), args), 1)


def in_chunks(size: int) -> ExecutionMode:
    """`size` clients in step at a time, as long as the slowest of them."""

    def each(f):
        return lambda *args: lax.map(lambda a: f(*a), args, batch_size=size)

    return mapped(each, size)


def all_at_once() -> ExecutionMode:
    """All in step, as long as the slowest."""
    return mapped(jax.vmap, None)


def in_segments(segments: Sequence[Segment], chunk: int) -> ExecutionMode:
    """All in step (accelerators); who has no steps left does not run along.

    Args:
      segments: from `plan`.
      chunk: clients at a time where a client's whole data is swept.
    """
    each = in_chunks(chunk).each

    def train(stages):
        def one(first, last):
            return lambda s, *client: stages.steps(s, first, last, *client)

        def whole(*clients):
            session = jax.vmap(stages.start)(*clients)
            for first, last, k in segments:
                args = _head((session, *clients), k)
                moved = jax.vmap(one(first, last))(*args)
                session = _put(moved, session, k)
            return each(stages.end)(session, *clients)

        return whole

    return ExecutionMode(each, train, lambda steps_K: work(segments))


def _head(tree: Tree, k: int) -> Tree:
    return jax.tree.map(lambda a: a[:k], tree)


def _put(head: Tree, tree: Tree, k: int) -> Tree:
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b[k:]]), head, tree)


def plan(steps_K: Steps, most: int = 4) -> tuple[Segment, ...]:
    """At most `most` segments with the least padded work.

    Args:
      steps_K: local steps per client, in descending order.
      most: segments; each is compiled once more.
    """
    own_K = np.asarray(steps_K)
    ends = np.unique(own_K[own_K > 0])  # ascending; a segment ends at one of them
    runs = np.array([np.sum(own_K > e) for e in [0, *ends[:-1]]])  # rows beyond
    n = len(ends)
    edge = np.concatenate([[0], ends])
    # cost[i]: least work up to edge[i]; a segment from a to b runs runs[a] rows
    cost = np.full((most + 1, n + 1), np.inf)
    cost[:, 0], back = 0, np.zeros((most + 1, n + 1), int)
    for m in range(1, most + 1):
        for b in range(1, n + 1):
            work = cost[m - 1, :b] + (edge[b] - edge[:b]) * runs[:b]
            back[m, b] = np.argmin(work)
            cost[m, b] = work[back[m, b]]
    segments, b, m = [], n, most
    while b > 0:
        a = back[m, b]
        segments.append(Segment(int(edge[a]), int(edge[b]), int(runs[a])))
        b, m = a, m - 1
    return tuple(reversed(segments))


def work(segments: Sequence[Segment]) -> int:
    """Steps that the segments run, padding included."""
    return sum((s.last - s.first) * s.clients for s in segments)
