"""Contract of every method; a line in the registry adds a method to all tests."""

import dataclasses
import functools

import jax
import numpy as np
import pytest
from support import fast_jit, toys
from support.every import check_every

from jaxproto import wire
from jaxproto.attacks import message_fields
from jaxproto.core.method import Method
from jaxproto.core.types import Protos, Spec
from jaxproto.lab.analysis import cost
from jaxproto.methods import METHODS
from jaxproto.methods.fednova import LocalDescent
from jaxproto.nodes.flower import accept
from jaxproto.prototypes.transforms import Diagnostics
from jaxproto.round import execution, federation
from jaxproto.summary import nominal_cost
from jaxproto.wire import codec

every_method = pytest.mark.parametrize("name", METHODS)


OF_A_ROUND = (Protos, Diagnostics)
FOUR_TRAIN, FOUR_REPORT = toys.only(*range(4)), toys.only(*range(6), reports=range(4))
PUBLIC = np.random.default_rng(1).normal(size=(7, toys.INPUT)).astype(np.float32)
TOYS = {  # what fits 60 examples of 5 classes, where a default fits the papers' data
    "tinyproto": {"s": 6, "mu": 0.04, "lam": 5.0},  # 5 / 60 and 10 grow without end
    "cps_ppa_cpkd": {"s": 6, "num_examples": 60, "lam": 5.0},
    "fml": {"aux": toys.net(12)},
    "fedkd": {"aux": toys.net(12), "rounds": 3},
    "fedgh": {"server_rate": 0.5, "server_epochs": 5},
    "fedgen": {"noise": 4, "hidden": 8, "server_epochs": 5},
    "fednh": {"scale": 10.0},
    "fedproc": {"rounds": 3},
    "scaffold": {"sgd": LocalDescent(0.05, 0.0)},  # that of the toys
    "fpl": {"num_clients": 6},
    "fedpcl": {"num_clients": 6},
    "fedpac": {"num_clients": 6},
    "heterofl": {"num_clients": 6, "levels": 2},
    "fedmd": {"public": PUBLIC},
    "feddf": {"public": PUBLIC, "server_epochs": 5},
    "fedmrl": {"aux": toys.net(12, Spec(5, 4)), "aux_dim": 4},
    "fedl2g": {"quiz": 2, "study": 4},
    "fast": {"q": 0.0},  # whoever the law of a test brings
}
WIDE = ((16, (0, 1, 2, 3, 4, 5)),)
SIZED = {  # for which sizes do not depend on values
    "fedkd": {"energy_start": 1.0, "energy_end": 1.0},
    "fpl": {"num_clients": 2},  # one cluster of each class
}
# where classes are those seen in whole batches: long enough to see all
SEEN = {"feddistill": dataclasses.replace(toys.LOCAL, epochs=6)}
ROUNDS = {"fedhp": 20}  # of slow learning on the toy problem; 10 for the others
FORMULA = {"fedkd": "fml"}  # of the sized one, where the own has a made-up factor
BEYOND = {  # numbers per client that are sent but not in the formula, besides those
    # that stand alone, as n_i does
    "lg_fedavg": 2 * toys.SPEC.num_classes,  # the bias in both directions
    "refprotofl": -1,  # its formula has n_i
    "fednh": 3 * 8 + 5 * 8 - 2 * (8 * 5 + 5),  # prototypes; not the head
}


def layout(name):
    """Two architectures, or one where the method needs that."""
    return WIDE if make(name).homogeneous else toys.HET


@functools.cache
def make(name, **more) -> Method:
    return toys.method(METHODS[name], **TOYS.get(name, {}) | more)


def sized(name) -> Method:
    """As `make`, but of messages whose sizes do not depend on values."""
    return make(name, **SIZED.get(name, {}))


@every_method
def test_a_round_is_finite_and_keeps_the_tree_of_the_server(name):
    method, wide = make(name), layout(name)
    r = toys.run(method, wide)
    assert np.all(r.report.usable) and np.all(r.report.finite)
    assert np.all(np.isfinite(r.report.loss)) and np.all(r.report.loss > 0)
    dense = sum(a[0].size for a in jax.tree.leaves(r.report.up))
    assert np.all((r.report.scalars >= 0) & (r.report.scalars <= dense))
    start = method.init_server(toys.net(wide[0][0]), jax.random.key(0))
    assert jax.tree.structure(start) == jax.tree.structure(r.server)
    shapes = jax.tree.map(lambda a, b: a.shape == b.shape, start, r.server)
    assert all(jax.tree.leaves(shapes))


@every_method
def test_compiles_once_and_the_server_computes_in_full_float32(name):
    """On accelerators too, where the default is less."""
    toys.run(make(name), rounds=4)
    r = toys.run(make(name), rounds=2)
    assert len(toys.programs(make(name), *toys.DEFAULTS).traces) == 1
    groups, key = toys.cohorts(*toys.HOM), jax.random.key(0)
    aggregation = make(name).collecting().aggregation
    step = functools.partial(federation.update_server, groups, aggregation, key)
    made = jax.make_jaxpr(step)(r.server, [r.report.uploads])
    assert "precision=None" not in str(made)


@every_method
def test_neither_cohorts_nor_the_order_of_clients_matter(name):
    one = toys.run(make(name))
    two = toys.run(make(name), ((8, (0, 3)), (8, (1, 2, 4, 5))))
    assert toys.gap(one.params, two.params) < 1e-5
    assert toys.gap(one.server, two.server) < 1e-5
    other = toys.run(make(name), ((8, (5, 2, 0, 4, 1, 3)),))
    assert toys.gap(one.params, other.params) == 0
    assert toys.gap(one.server, other.server) == 0


STEPS = [6, 6, 4, 4, 2, 2]  # of clients 5 to 0
SEGMENTS = execution.plan_segments(STEPS, max_segments=3)
FORMS = {"all_at_once": execution.in_chunks(6)}
FORMS |= {"in_segments": execution.in_segments(SEGMENTS, chunk=2)}
LARGEST_FIRST = ((8, (5, 4, 3, 2, 1, 0)),)


@every_method
def test_every_form_equals_one_by_one_and_a_round_lowers_for_accelerators(name):
    """Lowering shows that JAX has every operation there, not the results."""
    one = toys.run(make(name))

    def check(mode):
        other = toys.run(make(name), LARGEST_FIRST, mode=FORMS[mode])
        assert [int(other.clients[i].steps) for i in range(5, -1, -1)] == STEPS
        assert toys.gap(one.params, other.params) < 1e-4
        assert toys.gap(one.server, other.server) < 1e-4
        assert toys.gap(one.report.loss, other.report.loss) < 1e-4

    check_every(FORMS, check)
    for platform in ("cuda", "tpu"):
        given = LARGEST_FIRST, FORMS["in_segments"], platform
        assert "stablehlo.while" in toys.lowered(make(name), *given).as_text()


def first_alone(key, clients, r):
    """Nobody takes part after the first round."""
    return toys.only(*range(6 * (r == 0)))(key, clients, r)


def learnt(server):
    """The state of the server but prototypes, which are of a round, and diagnostics."""
    leaves = jax.tree.leaves(server, is_leaf=lambda a: isinstance(a, OF_A_ROUND))
    return [a for a in leaves if isinstance(a, np.ndarray) and a.dtype.kind == "f"]


@every_method
def test_sitting_out_equals_absent_and_without_uploads_all_keep_their_progress(name):
    r = toys.run(make(name), sampler=FOUR_TRAIN)
    fresh = toys.run(make(name), rounds=1, sampler=FOUR_TRAIN)
    without = toys.run(make(name), ((8, (0, 1, 2, 3)),))
    assert toys.gap(r.server, without.server) < 1e-5
    for i in range(4):
        assert toys.gap(r.params[i], without.params[i]) < 1e-5
    assert toys.gap(r.clients[5], fresh.clients[5]) == 0
    assert toys.gap(r.params[0], fresh.params[0]) > 0
    r = toys.run(make(name), rounds=1, sampler=FOUR_REPORT)
    full = toys.run(make(name), rounds=1)
    assert toys.gap(r.params, full.params) == 0
    assert np.all(r.report.scalars[4:] == 0)
    empty = toys.run(make(name), rounds=2, sampler=first_alone)
    assert toys.gap(learnt(empty.server), learnt(full.server)) == 0


PADDED = execution.one_by_one()  # its programs apart from those of the other tests


@every_method
def test_padding_changes_nothing(name):
    """The filler's examples change no bit; their number changes sums like order."""
    run = functools.partial(toys.run, make(name), extra=23, mode=PADDED)
    a, b, none = run(), run(filler=40), toys.run(make(name))
    assert toys.gap(a.params, b.params) == 0
    assert toys.gap(a.server, b.server) == 0
    assert toys.gap(a.params, none.params) < 1e-5
    assert toys.gap(a.server, none.server) < 1e-5


@every_method
def test_measured_cost_is_that_of_the_calculator_and_of_the_nominal_formula(name):
    """The calculator knows class counts alone, and networks without work."""
    method, (group,) = sized(name), toys.cohorts(*toys.HOM)
    r = toys.run(method, local=SEEN.get(name, toys.LOCAL))
    count_KC = toys.counts(*toys.pool_and_rows(), group.ids)
    assert count_KC.sum(0).all()  # every class is somewhere
    down, like = method.broadcast(r.server), np.zeros(toys.INPUT, np.float32)
    found = cost.message_sizes(method, group.net, toys.SPEC, count_KC, like=like)
    scalars, size = wire.broadcast_sizes(down, wire.pack(down, "float32"))
    scalars_K = r.report.scalars + r.pre_upload.scalars
    assert found.scalars[0].tolist() == scalars_K.tolist()
    assert found.bytes[0].tolist() == (r.report.bytes + r.pre_upload.bytes).tolist()
    twice = method.two_exchanges
    assert np.array_equal(found.scalars[1], scalars)
    assert np.array_equal(found.bytes[1], size + twice * wire.HEADER)
    if method.nominal is not None:
        classes_K = (count_KC > 0).sum(1).tolist()
        paper = sized(FORMULA.get(name, name))
        formula = nominal_cost.nominal(paper, group.net, classes_K)
        message = wire.for_client(down, 0)
        both = message, jax.tree.map(lambda a: a[0], r.report.up)
        alone = sum(np.ndim(a) == 0 for a in jax.tree.leaves(both))
        measured = int(np.sum(scalars_K)) + 6 * int(wire.scalars(message))
        assert measured == formula + 6 * (alone + BEYOND.get(name, 0))


@every_method
def test_every_format_has_the_bytes_that_it_is_counted_with(name):
    """Real bytes of the messages of a real round, both directions."""
    method = make(name)
    r = toys.run(method)
    count_KC = np.asarray(toys.counts(*toys.pool_and_rows(), range(6)))
    sizes_K = count_KC.sum(1)
    limits = accept.Limits(1e6, sizes_K, sizes_K, count_KC, count_KC > 0)
    for report in (r.report, r.pre_upload):
        for k, size in enumerate(report.bytes):
            one = jax.tree.map(lambda a, k=k: a[k], report.up)
            accept.check_upload(jax.device_get(wire.unpack(one)), limits, k)
            counted = int(size) if jax.tree.leaves(one) else 0
            codec.check_roundtrip(one, counted, "float32")
            assert size == len(codec.encode(one, "float32"))
    up = jax.tree.map(lambda a: a[0], (r.pre_upload.up, r.report.up))
    lossy = [mode for mode in wire.FORMATS if mode != "float32"]

    @fast_jit.jit
    def pack(messages):
        packed = [[wire.pack(m, mode) for m in messages] for mode in lossy]
        return packed, [list(map(wire.message_bytes, p)) for p in packed]

    down = wire.for_client(method.broadcast(r.server), 0)
    messages = (*wire.unpack(up), down, method.setup)
    packed, sizes = jax.device_get(pack(messages))
    for mode, some, size in zip(lossy, packed, sizes, strict=True):
        for message, counted in zip(some, size, strict=True):
            codec.check_roundtrip(message, int(counted), mode)


@every_method
def test_counts_are_disclosed_only_where_the_server_needs_them(name):
    """RefProtoFL weights classes without public examples by |D_kc| (Eq. 15).

    FedNH weights directions by n_ik, FedHP and FedPAC prototypes by n_ij.
    """
    like = (wire.EXACT, (), np.zeros(toys.INPUT, np.float32))
    fields = message_fields.message_fields(make(name), toys.net(16), toys.SPEC, *like)
    counts = [(f.way, f.name) for f in fields if f.reveals == message_fields.COUNTS]
    needed = {"refprotofl": ("up first", "own.count"), "fednh": ("up", "protos.count")}
    needed |= {"fedhp": ("up", "count"), "fedpac": ("up", "protos.count")}
    assert counts == [needed.get(name)] * (name in needed)
    assert not any(f.shape == (16,) for f in fields)  # of statistics
    shared = make(name).homogeneous
    assert shared or not any(16 in f.shape for f in fields)  # of backbones


@every_method
def test_every_rule_counts_correct_predictions_in_every_form(name):
    method = make(name)
    r = toys.run(method, rounds=ROUNDS.get(name, 10))
    hits = toys.evaluate(method, r)
    sizes = 5 + 2 * np.arange(6)
    assert "head" in hits
    for rule, hits_K in hits.items():
        assert np.all((hits_K >= 0) & (hits_K <= sizes)), rule
        assert hits_K.sum() > 0.5 * sizes.sum(), rule
    other = toys.evaluate(method, r, execution.in_chunks(6))
    assert toys.gap(hits, other) <= 1  # one between two prototypes may fall either way
