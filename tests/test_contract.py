"""What every method must keep; a line in the registry buys all of these tests."""

import functools
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toys

from jaxproto import build, comm, config, forms, participation
from jaxproto.errors import UserError
from jaxproto.method import Method
from jaxproto.methods import METHODS
from jaxproto.types import Batch

every_method = pytest.mark.parametrize("name", METHODS)


def all_but_two(key, clients):
    on_K = jnp.arange(clients) < 4
    return participation.Turnout(on_K, on_K)


def silent(key, clients):
    return participation.Turnout(jnp.ones(clients, bool), jnp.arange(clients) < 4)


@functools.cache
def make(name) -> Method:
    return METHODS[name](toys.SPEC)


@every_method
def test_round_runs_and_is_finite(name):
    r = toys.run(make(name), toys.HET)
    assert np.all(r.report.finite)
    assert np.all(np.isfinite(r.report.loss)) and np.all(r.report.loss > 0)


@every_method
def test_compiles_once(name):
    toys.run(make(name), rounds=4)
    toys.run(make(name), rounds=2)
    programs = toys.programs(make(name), *toys.DEFAULTS)
    assert len(programs.traces) == 1


@every_method
def test_server_tree_is_stable(name):
    method = make(name)
    start = method.init_server(toys.net(8), jax.random.key(0))
    end = toys.run(method).server
    assert jax.tree.structure(start) == jax.tree.structure(end)
    shapes = jax.tree.map(lambda a, b: a.shape == b.shape, start, end)
    assert all(jax.tree.leaves(shapes))


@every_method
def test_one_cohort_equals_two(name):
    one = toys.run(make(name))
    two = toys.run(make(name), ((8, (0, 3)), (8, (1, 2, 4, 5))))
    assert toys.gap(one.params, two.params) < 1e-5
    assert toys.gap(one.server, two.server) < 1e-5


STEPS = [6, 6, 4, 4, 2, 2]  # of clients 5 to 0
FORMS = {
    "all_at_once": forms.all_at_once(),
    "in_chunks": forms.in_chunks(4),
    "in_segments": forms.in_segments(forms.plan(STEPS, most=3), chunk=2),
}


@every_method
@pytest.mark.parametrize("form", FORMS)
def test_every_form_equals_one_by_one(name, form):
    largest_first = ((8, (5, 4, 3, 2, 1, 0)),)
    one = toys.run(make(name))
    other = toys.run(make(name), largest_first, form=FORMS[form])
    assert [int(other.clients[i].steps) for i in range(5, -1, -1)] == STEPS
    assert toys.gap(one.params, other.params) < 1e-4
    assert toys.gap(one.server, other.server) < 1e-4
    assert toys.gap(one.report.loss, other.report.loss) < 1e-4


@every_method
def test_client_order_does_not_matter(name):
    a = toys.run(make(name))
    b = toys.run(make(name), ((8, (5, 2, 0, 4, 1, 3)),))
    assert toys.gap(a.params, b.params) == 0
    assert toys.gap(a.server, b.server) == 0


@every_method
def test_sitting_out_equals_absent(name):
    r = toys.run(make(name), law=all_but_two)
    fresh = toys.run(make(name), rounds=1, law=all_but_two)
    without = toys.run(make(name), ((8, (0, 1, 2, 3)),))
    assert toys.gap(r.server, without.server) < 1e-6
    for i in range(4):
        assert toys.gap(r.params[i], without.params[i]) < 1e-6
    assert toys.gap(r.clients[5], fresh.clients[5]) == 0
    assert toys.gap(r.params[0], fresh.params[0]) > 0


@every_method
def test_a_lost_upload_keeps_the_clients_progress(name):
    r = toys.run(make(name), rounds=1, law=silent)
    full = toys.run(make(name), rounds=1)
    assert toys.gap(r.params, full.params) == 0
    assert np.all(r.report.sent[4:] == 0)


@every_method
def test_padding_changes_nothing(name):
    a, b = toys.run(make(name)), toys.run(make(name), extra=23)
    assert toys.gap(a.params, b.params) == 0
    assert toys.gap(a.server, b.server) == 0


@every_method
def test_cost_never_exceeds_dense(name):
    r = toys.run(make(name))
    dense = sum(a[0].size for a in jax.tree.leaves(r.report.up))
    assert np.all(r.report.sent <= dense)
    assert np.all(r.report.sent >= 0)


@every_method
def test_measured_cost_is_the_nominal_formula(name):
    method = make(name)
    r = toys.run(method)
    pool, rows = toys.pool_and_rows()
    classes_K = [len(np.unique(np.asarray(pool.y)[rows[i]])) for i in range(6)]
    down = int(comm.scalars(method.broadcast(r.server)))
    everything = len(np.unique(np.concatenate([np.asarray(pool.y)[r] for r in rows])))
    assert everything == toys.SPEC.num_classes
    measured = int(np.sum(r.report.sent)) + 6 * down
    assert measured == comm.NOMINAL[name](classes_K, toys.SPEC)


@every_method
def test_norm_statistics_never_leave(name):
    method, width = make(name), 16  # of a cohort; no upload has an axis of it
    r = toys.run(method, toys.HET)
    sent = [np.shape(a)[1:] for a in jax.tree.leaves(r.report.up)]
    assert not any(width in shape for shape in sent)


@every_method
def test_unknown_argument_is_named(name):
    c = config.experiment(name, "digits")
    c.unlock()
    c.method.lamm = 1.0
    with pytest.raises(UserError, match="lamm"):
        config.check(c)


@every_method
def test_floats_may_be_traced(name):
    parameters = inspect.signature(METHODS[name]).parameters
    floats = {k: p.default for k, p in parameters.items() if type(p.default) is float}

    @jax.jit
    def loss(values):
        method = METHODS[name](toys.SPEC, **values)
        net = toys.net(8)
        params, norm, _ = method.init_client(net, jax.random.key(0))
        server = method.init_server(net, jax.random.key(1))
        pool, _ = toys.pool_and_rows()
        batch = Batch(pool.x[:4], pool.y[:4], jnp.ones(4))
        down = method.broadcast(server)
        return method.loss(net, params, norm, batch, down, None)[0]

    assert np.isfinite(loss({k: jnp.float32(v) for k, v in floats.items()}))


@every_method
def test_evaluation_is_the_same_in_every_form(name):
    r = toys.run(make(name))
    a = toys.evaluate(make(name), r)
    b = toys.evaluate(make(name), r, forms.all_at_once())
    assert toys.gap(a, b) <= 1  # one example between two prototypes may fall either way


@every_method
def test_every_rule_is_a_count_of_correct_predictions(name):
    method = make(name)
    r = toys.run(method, rounds=10)
    hits = toys.evaluate(method, r)
    sizes = 5 + 2 * np.arange(6)
    assert "head" in hits
    for rule, hits_K in hits.items():
        assert np.all((hits_K >= 0) & (hits_K <= sizes)), rule
        assert hits_K.sum() > 0.5 * sizes.sum(), rule


@every_method
def test_registry_resolves_every_configured_argument(name):
    c = config.experiment(name, "digits")
    assert isinstance(build.build_method(c.method, toys.SPEC), Method)
