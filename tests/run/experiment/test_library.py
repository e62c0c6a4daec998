"""A federation as a library has the numbers of a run with the same data."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import fast_jit, runs, toys, trained

import jaxproto
from jaxproto.experiment import build
from jaxproto.round import federation
from jaxproto.storage import checkpoint
from jaxproto.training import programs


def library(exp):
    """The federation of an experiment, from its method, networks and arrays."""
    x, y, parts = exp.dataset.x, exp.dataset.y, exp.partition
    nets = {i: cohort.net for cohort in exp.cohorts for i in cohort.ids}
    local = {
        field.name: getattr(exp.local, field.name)
        for field in dataclasses.fields(exp.local)
        if field.name not in ("opt", "factor")
    }
    return jaxproto.Federation(
        exp.method,
        [nets[i] for i in sorted(nets)],
        [(x[rows], y[rows]) for rows in parts.train],
        [(x[rows], y[rows]) for rows in parts.test],
        exp.local.opt,
        sampler=exp.sampler,
        dropout=exp.dropout,
        formats=exp.formats,
        metrics=exp.metrics,
        **local,
    )


def rounds(setup, seed, number):
    """Rounds of a federation by the functions of `round.federation`."""
    clients, server, key = programs.keys(seed)
    model = federation.init_model(setup, {}, jnp.stack([clients, server]))
    for r in range(number):
        model, _ = federation.one_round(setup, {}, jax.random.fold_in(key, r), model, r)
    return model


@pytest.mark.parametrize(
    "name", ["fedproto", pytest.param("protonorm", marks=pytest.mark.long)]
)
def test_a_federation_from_arrays_has_the_numbers_of_a_run(trained_runs, name):
    """Of one architecture, and of two with a part of the clients in each round."""
    c, path = trained.CONFIGS[name](), trained_runs(name)
    exp = build.experiment(c, "cpu")
    fed = library(exp)
    step = partial(fed.round, c.seed)

    @fast_jit.jit
    def whole():
        model, reports = jax.lax.scan(step, fed.init(c.seed), jnp.arange(c.rounds))
        return model, reports, fed.evaluate(model)

    model, reports, accuracy = whole()
    found = checkpoint.restore_latest(
        path / "checkpoints", programs.shapes(exp, c.seed)
    )
    assert toys.gap(model.server, found.state.server) < 1e-5
    assert toys.gap(model.clients, found.state.clients) < 1e-5
    *_, last = runs.records(path)
    by_client = last["by_client"]
    for rule, accuracy_K in accuracy.items():
        right = np.divide(by_client[f"correct_{rule}"], by_client["test_examples"])
        np.testing.assert_allclose(accuracy_K, right, atol=1e-6)
    loss = np.asarray(reports.loss[-1])
    assert loss[loss > 0].mean() == pytest.approx(last["loss"], rel=1e-5)
    sent = last["bytes_by_client"]["up"]
    np.testing.assert_array_equal(reports.bytes[-1], sent)


def test_its_rounds_are_those_of_the_federation_of_the_run_to_the_bit():
    exp = build.experiment(trained.CONFIGS["protonorm"](), "cpu")
    both = library(exp).setup, build.federation(exp)
    first, other = (
        fast_jit.jit_to_the_bit(lambda s=s: rounds(s, 0, 2))() for s in both
    )
    leaves = zip(jax.tree.leaves(first), jax.tree.leaves(other), strict=True)
    assert all(np.array_equal(a, b) for a, b in leaves)
