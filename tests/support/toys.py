"""A small federation for tests: networks of two widths with running statistics."""

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxproto import wire
from jaxproto.config import registries
from jaxproto.core.types import Examples, Net, NetOutput, Shard, Spec
from jaxproto.experiment.cohorts import CohortPlan
from jaxproto.metrics import ACCURACY, metrics_by_name
from jaxproto.round import evaluation, execution, federation, gather, participation
from jaxproto.round.client import LocalTraining
from jaxproto.round.evaluation import EvaluationInputs
from jaxproto.round.federation import RoundInputs
from jaxproto.round.uploads import PreReport, Report, Uploads
from support import fast_jit

SPEC = Spec(num_classes=5, feat_dim=8)
INPUT = 6


def method(factory, spec=SPEC, **fields):
    """Makes a method by names of configuration fields: `lam`, not `pull`."""
    return factory(spec, **registries.group_arguments(factory, fields))


ONE = execution.one_by_one()
LOCAL = LocalTraining(optax.sgd(0.05), epochs=2, batch_size=4)
STILL = LocalTraining(optax.sgd(0.0), epochs=2, batch_size=4)


@cache
def net(width: int, spec: Spec = SPEC) -> Net:
    """One hidden layer, a running mean and variance, features of spec.feat_dim."""
    shapes = [(INPUT, width), (width, spec.feat_dim), tuple(reversed(spec))]

    def init(key):
        sizes = np.cumsum([a * b for a, b in shapes])
        draw = 0.5 * jax.random.normal(key, (sizes[-1],))  # one draw compiles fast
        parts = zip(jnp.split(draw, sizes[:-1]), shapes, strict=True)
        first, second, kernel = (part.reshape(s) for part, s in parts)
        head = {"kernel": kernel, "bias": jnp.zeros(spec.num_classes)}
        norm = {"mean": jnp.zeros(width), "var": jnp.ones(width)}
        return {"body": {"in": first, "out": second}, "head": head}, norm

    def head(params, feat):
        return feat @ params["kernel"] + params["bias"]

    def apply(params, norm, x, train, key=None):
        assert not train or key is not None, "training needs a key, of dropout"
        h = x @ params["body"]["in"]
        mean, var = (h.mean(0), h.var(0)) if train else (norm["mean"], norm["var"])
        if train:
            new = {"mean": mean, "var": var}
            norm = jax.tree.map(lambda o, n: 0.9 * o + 0.1 * n, norm, new)
        feat = jax.nn.relu((h - mean) / jnp.sqrt(var + 1e-5)) @ params["body"]["out"]
        return NetOutput(feat, head(params["head"], feat), norm)

    return Net(init, apply, head)


def cohorts(*layout):
    return tuple(CohortPlan(f"toy{w}", net(w), tuple(ids)) for w, ids in layout)


HET = ((8, (0, 2, 4)), (16, (1, 3, 5)))
HOM = ((8, (0, 1, 2, 3, 4, 5)),)


def pool_and_rows():
    """A pool and rows of six clients; sizes 5, 7, ..., each has three classes."""
    rng, clients, most = np.random.default_rng(0), 6, 19
    centre = rng.normal(size=(SPEC.num_classes, INPUT)) * 1.5
    three = partial(rng.choice, SPEC.num_classes, 3, replace=False)
    y = np.concatenate([rng.choice(three(), most) for _ in range(clients)])
    x = (centre[y] + rng.normal(size=(len(y), INPUT))).astype(np.float32)
    rows = [k * most + np.arange(5 + 2 * k) for k in range(clients)]
    return Examples(jnp.asarray(x, float), jnp.asarray(y, jnp.int32)), rows


def shard(rows, ids, extra=0, filler=0):
    """Index tables padded to the longest and `extra` more, with row `filler`."""
    longest = max(len(rows[i]) for i in ids) + extra
    table = np.full((len(ids), longest), filler, np.int32)
    for k, i in enumerate(ids):
        table[k, : len(rows[i])] = rows[i]
    size = jnp.asarray([len(rows[i]) for i in ids], jnp.int32)
    return Shard(jnp.asarray(table), size)


def counts(examples, rows, ids):
    c = [np.bincount(np.asarray(examples.y)[rows[i]], minlength=SPEC[0]) for i in ids]
    return jnp.asarray(np.stack(c), jnp.float32)


class Reported(NamedTuple):
    uploads: Uploads
    report: Report | PreReport

    @property
    def up(self):
        return self.uploads.up

    def __getattr__(self, name):
        return getattr(self.report, name)


class Result:
    """State and reports after some rounds, on the host, by client id."""

    def __init__(self, server, clients, groups, reports, pre_uploads):
        self.server, clients, reports = jax.device_get((server, clients, reports))
        self.params, self.clients, self.stacked = {}, {}, clients
        for group, stacked in zip(groups, clients, strict=True):
            for k, i in enumerate(group.ids):
                one = jax.tree.map(lambda a, k=k: a[k], stacked)
                self.clients[i], self.params[i] = one, one.params
        if reports and all(g.num_rows == len(g.ids) for g in groups):
            reports, pre_uploads = by_id(groups, reports), by_id(groups, pre_uploads)
        self.report, self.pre_upload = reports, pre_uploads


def by_id(groups, parts):
    """Rows of all cohorts in the order of client ids, on the host."""
    order = np.argsort([i for g in groups for i in g.ids])
    return jax.tree.map(lambda *a: np.concatenate(a)[order], *parts)


class Programs(NamedTuple):
    groups: tuple
    init: Callable
    one_round: Callable
    traces: list


@cache
def starter(method, layout, local):
    groups = cohorts(*layout)

    @fast_jit.jit
    def init(key, counts):
        each = zip(groups, counts, strict=True)
        start = partial(federation.init_cohort, method, local)
        clients = tuple(start(g, key, c) for g, c in each)
        return method.init_server(groups[0].net, key), clients

    return init


@cache
def programs(method, layout, mode, local, most=0, sums=False):
    """Jitted initialisation and round; `traces` grows with every trace of a round."""
    options = {"mode": mode, "max_participants": most}
    groups = tuple(dataclasses.replace(g, **options) for g in cohorts(*layout))
    traces, exact = [], wire.EXACT
    if not sums:
        method = method.collecting()

    @fast_jit.jit
    def one_round(key, participants, server, clients, examples, shards):
        traces.append(1)
        sent = federation.broadcast(method, server, exact).message
        given = RoundInputs(method, local, exact, participants, sent, key)
        own = zip(groups, clients, shards, strict=True)
        rows = [gather.gather(participants, c, s, g.num_rows)[0] for g, c, s in own]
        pre_uploads = [
            federation.pre_upload_cohort(given, g, own.clients, examples, own.shards)
            for g, own in zip(groups, rows, strict=True)
        ]
        update = partial(federation.update_server, groups)
        if method.two_exchanges:
            ups = [uploads for uploads, _ in pre_uploads]
            server = update(method.first_aggregation, key, server, ups)
            sent = federation.broadcast(method, server, exact).message
        given = given._replace(down=sent)
        out = [
            federation.train_cohort(given, g, own.clients, examples, own.shards)
            for g, own in zip(groups, rows, strict=True)
        ]
        trained, ups, reports = zip(*out, strict=True)
        each = zip(clients, rows, trained, strict=True)
        clients = tuple(gather.scatter(c, [o.place], [new]) for c, o, new in each)
        server = update(method.aggregation, key, server, ups)
        reported = [Reported(*each) for each in zip(ups, reports, strict=True)]
        return server, clients, reported, [Reported(*each) for each in pre_uploads]

    init = starter(method, layout, local)
    return Programs(groups, init, one_round, traces)


EVERYONE = participation.all_clients()


def only(*trains, reports=None):
    """Returns a sampler of these ids, of which `reports` (default: all) report."""

    def of(ids, clients):
        return jnp.isin(jnp.arange(clients), jnp.asarray(ids))

    def sampler(key, clients, r):
        heard = trains if reports is None else reports
        return participation.Participation(of(trains, clients), of(heard, clients))

    return sampler


DEFAULTS = (HOM, ONE, LOCAL)


def run(
    method,
    layout=HOM,
    rounds=3,
    mode=ONE,
    local=LOCAL,
    sampler=EVERYONE,
    extra=0,
    filler=0,
    public=None,
    **rows,
):
    """Trains the toy federation; `public` rows of the pool, `rows` of `programs`."""
    groups, init, one_round, _ = programs(method, layout, mode, local, **rows)
    data, server, clients = start(groups, init, extra, filler, public)
    reports = pre_uploads = ()
    for r in range(rounds):
        now = *opening(method, sampler, server, r), server, clients, *data
        server, clients, reports, pre_uploads = one_round(*now)
    return Result(server, clients, groups, reports, pre_uploads)


KEY = jax.random.key(3)


def start(groups, init, extra=0, filler=0, public=None):
    """Returns pool and shards, and the state before the first round."""
    examples, rows = pool_and_rows()
    examples = examples.replace(public=None if public is None else jnp.asarray(public))
    shards = [shard(rows, g.ids, extra, filler) for g in groups]
    each = [counts(examples, rows, g.ids) for g in groups]
    return (examples, shards), *init(KEY, each)


def opening(method, sampler, server, r):
    key = jax.random.fold_in(KEY, r)
    return key, method.adjust_sampler(sampler, server)(jax.random.fold_in(key, 7), 6, r)


def lowered(method, layout, mode, platform):
    """Lowers a round for a platform that this machine need not have."""
    groups, init, one_round, _ = programs(method, layout, mode, LOCAL)
    data, server, clients = start(groups, init)
    args = *opening(method, EVERYONE, server, 0), server, clients, *data
    return one_round.trace(*args).lower(lowering_platforms=(platform,))


def evaluate(method, result, mode=ONE):
    """Returns the correct predictions of every rule, by client id."""
    (group,), (examples, rows) = cohorts(*HOM), pool_and_rows()
    group, metrics = dataclasses.replace(group, mode=mode), metrics_by_name(ACCURACY)
    down = federation.broadcast(method, result.server, wire.EXACT).message

    @fast_jit.jit
    def evaluate(down, clients, examples, shards):
        given = EvaluationInputs(method, group, metrics, down, examples)
        return evaluation.evaluate_cohort(given, clients, shards)

    sums = evaluate(down, *result.stacked, examples, shard(rows, group.ids))
    return {rule: np.asarray(of["accuracy"][0]) for rule, of in sums.items()}


def gap(a, b) -> float:
    """The largest difference of two trees; NaN if any is."""
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    each = [np.max(np.abs(x - y), initial=0) for x, y in leaves]
    return float(np.max(each, initial=0))  # Python's max passes over NaN
