"""One round, as the host sees it."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from jaxproto import devices
from jaxproto.config.build import Experiment
from jaxproto.federation import PreUpload, Report
from jaxproto.method import Method
from jaxproto.participation import Participation
from jaxproto.training import placing, programs
from jaxproto.training.programs import Programs, RoundContext, State
from jaxproto.training.store import ClientStore
from jaxproto.training.threads import at_once
from jaxproto.types import Client, Examples, Shard, Tree
from jaxproto.wire import HEADER, codec


class Diverged(RuntimeError):
    """A loss, an upload or a parameter is no longer a finite number."""


class Work(NamedTuple):
    """What every round of a run needs."""

    exp: Experiment
    examples: Examples
    compiled: Programs
    seed: int
    store: ClientStore | None = None  # of clients that the device does not hold
    placed: placing.Placed | None = None  # data on several devices


class Round(NamedTuple):
    """What the host learns of a round."""

    loss: float  # mean over the clients that took a step
    participants: int
    scalars_up: int
    scalars_down: int
    bytes_up: int
    bytes_down: int
    bytes_by_client: dict[str, np.ndarray]  # "up" and "down", by client id


class Told(NamedTuple):
    """What the programs of a round tell the host."""

    participants: Participation
    scalars_down: np.ndarray  # of the broadcast
    bytes_down: np.ndarray
    reports: list[Report]  # per cohort and lane, without uploads
    pre_uploads: list[PreUpload]  # the same; none for a method with one exchange
    diagnostics: dict[str, np.ndarray]


def one_round(work: Work, r: int, state: State) -> tuple[State, Round]:
    """Exchanges, training of every cohort and the server's step.

    Raises:
      Diverged: names round, cohort and client.
    """
    server, clients, told = computed(work, r, state.server, state.clients)
    counts, summary = counted(work.exp, r, state, told)
    return counts._replace(server=server, clients=clients), summary


def computed(
    work: Work, r: int, server: Tree, clients: tuple[Client, ...]
) -> tuple[Tree, tuple[Client, ...], Told]:
    """Server and clients after round `r`, from 0, and what the programs told of it."""
    context = round_context(work, r)
    if work.store is not None:
        return from_store(work, work.store, r, server, clients)
    shards = work.placed.train if work.placed else work.exp.train
    begin = fetched if work.compiled.fetch else on_device
    return begin(work, context, server, clients, shards)


def round_context(work: Work, r: int) -> RoundContext:
    """Round `r`, on all devices."""
    return programs.everywhere(work.exp, programs.round_context(work.seed, r))


def from_store(work: Work, store: ClientStore, r: int, server: Tree, kept):
    """As `on_device`, of clients that are on the device for this round alone.

    Args:
      kept: what of clients is on the device between rounds.
    """
    participate, context = work.compiled.participate, round_context(work, r)
    mine, shards = store.begin(participate(context, server))
    if not asks_server(work.exp.method):
        store.ahead(participate(round_context(work, r + 1), server))
    server, clients, told = on_device(work, context, server, mine, shards)
    store.put(clients)
    return server, kept, told


def fetched(
    work: Work,
    context: RoundContext,
    server: Tree,
    clients: Sequence[Client],
    shards: Sequence[Shard],
) -> tuple[Tree, tuple[Client, ...], Told]:
    """As `on_device`, of participants that are dealt to several devices."""
    run, participants = work.compiled, work.compiled.participate(context, server)
    each = zip(run.fetch, clients, shards, strict=True)
    there = [
        (None, *own) if fetch is None else fetch(participants, *own)
        for fetch, *own in each
    ]
    places, mine, tables = zip(*there, strict=True)
    server, after, told = on_device(work, context, server, mine, tables)
    home = tuple(
        new if put is None else put(own, at, new)
        for put, own, at, new in zip(run.put_back, clients, places, after, strict=True)
    )
    return server, home, told


def asks_server(method: Method) -> bool:
    """Whether the server's state says who takes part."""
    return method.adjust_sampler is not Method.adjust_sampler


def on_device(
    work: Work,
    context: RoundContext,
    server: Tree,
    clients: Sequence[Client],
    shards: Sequence[Shard],
) -> tuple[Tree, tuple[Client, ...], Told]:
    """A round as far as compiled programs do it.

    Where these are of several federations, so is all that goes in and comes out.

    Args:
      clients: per cohort; of hosted ones, those of the round.
      shards: their index tables.
    """
    run = work.compiled
    participants = run.participate(context, server)
    server, sent, pre_uploads = first_exchange(
        work, context, participants, server, clients, shards
    )
    given = context, participants, sent.message
    clients, reports = train(work, given, clients, shards)
    if work.exp.check_wire:
        check_wire(work.exp, [*pre_uploads, *reports], server)
    server = run.update(context, server, tuple(p.uploads for p in reports))
    told = Told(
        participants=participants,
        scalars_down=sent.scalars,
        bytes_down=sent.bytes,
        reports=[p._replace(uploads=()) for p in reports],
        pre_uploads=[p._replace(uploads=()) for p in pre_uploads],
        diagnostics=run.diagnostics(server),
    )
    told = devices.to_host(told)  # sizes, losses; never uploads
    return jax.block_until_ready(server), clients, told


def train(
    work: Work, given: tuple, clients: Sequence[Client], shards: Sequence[Shard]
) -> tuple[tuple[Client, ...], list[Report]]:
    """Training of every cohort, and the reports of every lane.

    Args:
      given: context, participants, broadcast.
    """
    run, calls = work.compiled, []
    lanes = list(map(programs.lanes, work.exp.cohorts, run.put_back))
    for f, own, shard, number in zip(run.train, clients, shards, lanes, strict=True):
        rest = own, work.examples, shard
        if number == 1:
            calls.append(partial(f, *given, *rest))
        else:
            calls += [partial(f, *given, np.int32(n), *rest) for n in range(number)]
    moved, reports = zip(*at_once(calls), strict=True)
    after, first = [], 0
    for put, own, number in zip(run.put_back, clients, lanes, strict=True):
        mine, first = moved[first : first + number], first + number
        if put is None or number == 1:
            after.append(mine[0])
        else:
            after.append(put(own, list(mine)))
    return tuple(after), list(reports)


def counted(exp: Experiment, r: int, counts: State, told: Told) -> tuple[State, Round]:
    """What the host counts of a run, after round `r`, from 0; and of the round alone.

    Args:
      counts: before the round, traffic and what is watched.

    Raises:
      Diverged: names round, cohort and client.
    """
    check_finite(exp, r, told.reports)
    summary = summarize_round(exp, told)
    moved = np.array([summary.bytes_up, summary.bytes_down], np.int64)
    watched = watch(r, told.diagnostics, counts.watched)
    return counts._replace(traffic=counts.traffic + moved, watched=watched), summary


def unwatched(compiled: Programs, server: Tree, most: int) -> dict[str, np.ndarray]:
    """Room for what `diagnostics` says of `most` rounds; nan until then."""
    return {name: np.full(most, np.nan) for name in compiled.diagnostics(server)}


def watch(r: int, now: Mapping, watched: Tree) -> Tree:
    """`watched` with what `diagnostics` says of this round in its place."""
    return {
        name: np.where(np.arange(len(old)) == r % len(old), float(now[name]), old)
        for name, old in dict(watched).items()
    }


def first_exchange(work: Work, context, participants, server: Tree, clients, shards):
    """Server, its broadcast to whoever trains, and the exchange before that, if any."""
    run, sent = work.compiled, work.compiled.broadcast(server)
    ups = at_once(
        partial(pre_upload, participants, sent.message, own, work.examples, shard)
        for pre_upload, own, shard in zip(
            run.pre_upload, clients, shards, strict=bool(run.pre_upload)
        )
    )
    if run.pre_aggregate is None:
        return server, sent, []
    server = run.pre_aggregate(context, server, tuple(p.uploads for p in ups))
    sent = run.broadcast(server)
    # The broadcast's two halves are a message each
    return server, sent._replace(bytes=sent.bytes + HEADER), ups


def check_finite(exp: Experiment, r: int, reports):
    """Raises Diverged for the first client whose numbers are not finite."""
    half = " Values beyond 65,504 do not fit wire.up=float16; bfloat16 holds them."
    hint = half if exp.formats.up == "float16" else ""
    for p in reports:
        for k in np.flatnonzero(~p.finite):
            name = next(c.name for c in exp.cohorts if p.id[k] in c.ids)
            raise Diverged(
                f"round {r + 1}: client {p.id[k]} of cohort {name!r} has "
                f"loss {p.loss[k]:g} or an upload or weight that is not finite.{hint}"
            )


def check_wire(exp: Experiment, parts, server: Tree):
    """Encodes and decodes every message of a round and compares (slow: a check)."""
    for part in jax.device_get(parts):
        for k, size in enumerate(part.bytes):
            message = jax.tree.map(lambda a, k=k: a[k], part.up)
            codec.check(message, int(size), exp.formats.up)
    codec.check_broadcast(exp.method.broadcast(server), exp.formats.down)


def summarize_round(exp: Experiment, told: Told) -> Round:
    """Sums over clients of what a round moved and lost."""
    reports, pre_uploads = told.reports, told.pre_uploads
    stepped = sum(int((p.steps > 0).sum()) for p in reports)
    clients, trains = len(exp.counts.train), np.asarray(told.participants.trains)
    up = np.zeros(clients + 1, np.int64)  # the last is of rows that are not used
    for parts in (reports, pre_uploads):
        for p in parts:
            np.add.at(up, p.id, p.bytes)
    up, down = up[:clients], trains * int(told.bytes_down)
    return Round(
        loss=math.fsum(x for p in reports for x in p.loss.tolist()) / max(stepped, 1),
        participants=int(trains.sum()),
        scalars_up=sum(
            int(p.sent.sum()) for part in (reports, pre_uploads) for p in part
        ),
        scalars_down=int(told.scalars_down) * int(trains.sum()),
        bytes_up=int(up.sum()),
        bytes_down=int(down.sum()),
        bytes_by_client={"up": up, "down": down},
    )
