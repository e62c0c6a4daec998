"""Contract of every method; a line in the registry adds a method to all tests."""

import functools

import jax
import numpy as np
from support import fast_jit, toys
from support.every import check_every
from support.toy_methods import ROUNDS, every_method, make

from jaxproto import wire
from jaxproto.core.types import Protos
from jaxproto.prototypes.transforms import Diagnostics
from jaxproto.round import execution, federation
from jaxproto.wire import codec

OF_A_ROUND = (Protos, Diagnostics)
FOUR_TRAIN, FOUR_REPORT = toys.only(*range(4)), toys.only(*range(6), reports=range(4))
WIDE = ((16, (0, 1, 2, 3, 4, 5)),)


def layout(name):
    """Two architectures, or one where the method needs that."""
    return WIDE if make(name).homogeneous else toys.HET


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


STEPS = [6, 6, 4, 4, 2, 2]  # of clients 5 to 0
SEGMENTS = execution.plan_segments(STEPS, max_segments=3)
FORMS = {"all_at_once": execution.in_chunks(6)}
FORMS |= {"in_segments": execution.in_segments(SEGMENTS, chunk=2)}
LARGEST_FIRST = ((8, (5, 4, 3, 2, 1, 0)),)
ROUNDING = 1e-6  # of rounds in 64 bits: what is sent is rounded to 32


@every_method
@jax.enable_x64(True)
def test_neither_cohorts_nor_the_order_of_clients_matter(name):
    one = toys.run(make(name))
    two = toys.run(make(name), ((8, (0, 3)), (8, (1, 2, 4, 5))))
    assert toys.gap(one.params, two.params) < ROUNDING
    assert toys.gap(one.server, two.server) < ROUNDING
    other = toys.run(make(name), ((8, (5, 2, 0, 4, 1, 3)),))
    assert toys.gap(one.params, other.params) == 0
    assert toys.gap(one.server, other.server) == 0


@every_method
@jax.enable_x64(True)
def test_every_form_equals_one_by_one_and_a_round_lowers_for_accelerators(name):
    """Lowering shows that JAX has every operation there, not the results."""
    one = toys.run(make(name))

    def check(mode):
        other = toys.run(make(name), LARGEST_FIRST, mode=FORMS[mode])
        assert [int(other.clients[i].steps) for i in range(5, -1, -1)] == STEPS
        assert toys.gap(one.params, other.params) < ROUNDING
        assert toys.gap(one.server, other.server) < ROUNDING
        assert toys.gap(one.report.loss, other.report.loss) < ROUNDING

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
@jax.enable_x64(True)
def test_sitting_out_equals_absent_and_without_uploads_all_keep_their_progress(name):
    r = toys.run(make(name), sampler=FOUR_TRAIN)
    fresh = toys.run(make(name), rounds=1, sampler=FOUR_TRAIN)
    without = toys.run(make(name), ((8, (0, 1, 2, 3)),))
    assert toys.gap(r.server, without.server) < ROUNDING
    for i in range(4):
        assert toys.gap(r.params[i], without.params[i]) < ROUNDING
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
@jax.enable_x64(True)
def test_padding_changes_nothing(name):
    """The filler's examples change no bit; their number changes sums like order."""
    run = functools.partial(toys.run, make(name), extra=23, mode=PADDED)
    a, b, none = run(), run(filler=40), toys.run(make(name))
    assert toys.gap(a.params, b.params) == 0
    assert toys.gap(a.server, b.server) == 0
    assert toys.gap(a.params, none.params) < ROUNDING
    assert toys.gap(a.server, none.server) < ROUNDING


@every_method
def test_every_format_has_the_bytes_that_it_is_counted_with(name):
    """Real bytes of the messages of a real round, both directions."""
    method = make(name)
    r = toys.run(method)
    for report in (r.report, r.pre_upload):
        for k, size in enumerate(report.bytes):
            one = jax.tree.map(lambda a, k=k: a[k], report.up)
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
