"""Maps over the clients of a cohort: one by one, in chunks, or all at once.

Where the server needs a sum of uploads only, the clients' summands are added here.

All modes compute the same formula: each client takes its own steps on its own batches,
and padding changes nothing. In floating point they are equal up to rounding, because
XLA adds the products of several clients in another order than those of one. Training
amplifies rounding from step to step (benchmarks/RESULTS.md), so that bitwise
comparisons need the same mode and device. Rows must be sorted by local steps,
descending, for padded modes to waste little.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxproto.core.types import Tree
from jaxproto.errors import UserError

Steps = Sequence[int] | np.ndarray  # of each client


class ClientStages(NamedTuple):
    """Local training of one client: before, in and after its local steps."""

    start: Callable  # *client -> session
    num_steps: Callable  # session -> local steps of the client
    step: Callable  # *client, number of the step, session -> session
    end: Callable  # session, *client -> result, addend of the sum over clients


ClientMap = Callable[[Callable], Callable]  # f of one client -> f of all


class ExecutionMode(NamedTuple):
    """Map of functions of one client over the leading axis of clients."""

    map_and_sum: ClientMap  # f returns (result, addend): maps to [K, ...] and a sum
    train: Callable[[ClientStages], Callable]  # stages of one client -> training of all
    steps: Callable[[Steps], int]  # steps of each client -> steps run, with padding

    def each(self, f: Callable) -> Callable:
        """Maps `f` of one client over all clients."""
        return lambda *args: self.map_and_sum(lambda *one: (f(*one), ()))(*args)[0]


class Segment(NamedTuple):
    """Steps from `first` to before `last` of the first `clients` rows."""

    first: int
    last: int
    clients: int


def map_in_batches(size: int) -> ClientMap:
    """Returns a map over `size` clients at a time, the remaining ones last."""

    def summing(f):
        f = jax.jit(f, inline=True)  # traced once, for its shapes and for the loop

        def batch(total, args):
            result, addend = jax.vmap(f)(*args)
            addend = jax.tree.map(lambda a: a.sum(0, dtype=a.dtype), addend)
            return _add(total, addend), result

        def one(total, args):
            result, addend = f(*args)
            return _add(total, addend), result

        def mapped(*args):
            count = len(jax.tree.leaves(args)[0])
            first = jax.tree.map(lambda a: a[0], args)
            _, addend = jax.eval_shape(f, *first)
            zero = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), addend)
            if size == 1:
                total, results = lax.scan(one, zero, args)
                return results, total
            whole = count // size * size
            batches = jax.tree.map(
                lambda a: a[:whole].reshape(whole // size, size, *a.shape[1:]), args
            )
            total, results = lax.scan(batch, zero, batches)
            results = jax.tree.map(lambda a: a.reshape(whole, *a.shape[2:]), results)
            if whole == count:
                return results, total
            rest = jax.tree.map(lambda a: a[whole:], args)
            total, last = batch(total, rest)
            return jax.tree.map(lambda *a: jnp.concatenate(a), results, last), total

        return mapped

    return summing


def _add(a: Tree, b: Tree) -> Tree:
    return jax.tree.map(jnp.add, a, b)


def mapped_mode(summing: ClientMap, size: int) -> ExecutionMode:
    """Returns a mode that trains each client from start to end under one map.

    Args:
      summing: `map_and_sum` of the mode.
      size: number of clients at a time.
    """

    def train(stages):
        def whole(*client):
            session, step = stages.start(*client), partial(stages.step, *client)
            session = lax.fori_loop(0, stages.num_steps(session), step, session)
            return stages.end(session, *client)

        return summing(whole)

    def steps(steps_K):
        chunks = [steps_K[i : i + size] for i in range(0, len(steps_K), size)]
        return sum(max(c) * len(c) for c in chunks)

    return ExecutionMode(summing, train, steps)


def one_by_one() -> ExecutionMode:
    """Returns the mode of one client after the other (fast on CPU)."""
    return mapped_mode(map_in_batches(1), 1)


def only_client() -> ExecutionMode:
    """Returns the mode of a single client without a map, for debuggers."""

    def summing(f):
        def only(*args):
            result, addend = f(*jax.tree.map(lambda a: a[0], args))
            return jax.tree.map(lambda a: jnp.asarray(a)[None], result), addend

        return only

    return mapped_mode(summing, 1)


def in_chunks(size: int) -> ExecutionMode:
    """Returns the mode of `size` clients at a time, padded to the most steps."""
    return mapped_mode(map_in_batches(size), size)


def in_segments(segments: Sequence[Segment], chunk: int) -> ExecutionMode:
    """Returns the mode of all clients at once, with little padding (accelerators).

    Args:
      segments: from `plan_segments`.
      chunk: number of clients at a time for sums over their examples.
    """
    summing = map_in_batches(chunk)

    def train(stages):
        def steps(first, last, session, *client):
            last = jnp.minimum(last, stages.num_steps(session))
            return lax.fori_loop(first, last, partial(stages.step, *client), session)

        def whole(*clients):
            session = jax.vmap(stages.start)(*clients)
            for first, last, k in segments:
                head = _head((session, *clients), k)
                stepped = jax.vmap(partial(steps, first, last))(*head)
                session = _put(stepped, session, k)
            return summing(stages.end)(session, *clients)

        return whole

    return ExecutionMode(summing, train, lambda steps_K: padded_steps(segments))


def _head(tree: Tree, k: int) -> Tree:
    return jax.tree.map(lambda a: a[:k], tree)


def _put(head: Tree, tree: Tree, k: int) -> Tree:
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b[k:]]), head, tree)


def plan_segments(steps_K: Steps, max_segments: int = 4) -> tuple[Segment, ...]:
    """Plans at most `max_segments` segments with the least padding.

    Args:
      steps_K: local steps per client, in descending order.
      max_segments: number of segments; each is compiled separately.
    """
    own_K = np.asarray(steps_K)
    ends = np.unique(own_K[own_K > 0])  # ascending; a segment ends at one of them
    runs = np.array([np.sum(own_K > e) for e in [0, *ends[:-1]]])  # with more steps
    n = len(ends)
    edge = np.concatenate([[0], ends])
    # cost[i]: least work up to edge[i]; a segment from a to b runs runs[a] rows
    cost = np.full((max_segments + 1, n + 1), np.inf)
    cost[:, 0], back = 0, np.zeros((max_segments + 1, n + 1), int)
    for m in range(1, max_segments + 1):
        for b in range(1, n + 1):
            work = cost[m - 1, :b] + (edge[b] - edge[:b]) * runs[:b]
            back[m, b] = np.argmin(work)
            cost[m, b] = work[back[m, b]]
    segments, b, m = [], n, max_segments
    while b > 0:
        a = back[m, b]
        segments.append(Segment(int(edge[a]), int(edge[b]), int(runs[a])))
        b, m = a, m - 1
    return tuple(reversed(segments))


def padded_steps(segments: Sequence[Segment]) -> int:
    """Counts the steps that segments run, padding included."""
    return sum((s.last - s.first) * s.clients for s in segments)


def build_mode(choice: str, platform: str, steps_K: Sequence[int]) -> ExecutionMode:
    """Returns the execution mode of a cohort.

    Args:
      choice: Clients at once: auto, one, all or a number of clients.
      platform: Platform of the device, for auto.
      steps_K: Local steps per round of each client, descending.

    Raises:
      UserError: The choice is none of these.
    """
    if choice == "auto":
        choice = "one" if platform == "cpu" else "all"
    if choice == "one":
        return one_by_one()
    if choice == "all":
        segments = plan_segments(steps_K)
        rows = -(-len(steps_K) // max(len(segments), 1))
        return in_segments(segments, rows)
    if not (choice.isascii() and choice.isdecimal()) or int(choice) < 1:
        raise UserError(
            f"clients_at_once is {choice!r}; it is auto, one, all or a number of "
            "clients such as 4."
        )
    return in_chunks(int(choice))
