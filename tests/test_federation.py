"""A round as one pure function: the numbers of a run, under jit, scan and vmap."""

import dataclasses
import traceback
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import quick, runs, toys, trained

from jaxproto import federation
from jaxproto.experiment import build
from jaxproto.training import programs

PACKAGE = Path(federation.__file__).parent
PART = {"participation__law": "uniform", "participation__fraction": 0.5}
PART |= {"participation__dropout": 0.25}
LONG = ("protonorm", "refprotofl", "fedavg")
quick_runs = quick.quick_runs  # a fixture of all tests here


def by_function(exp, seed, number):
    whole, floats = build.federation(exp), dict(exp.floats)
    clients, server, rounds = programs.keys(seed)
    start = federation.init_model(whole, floats, jnp.stack([clients, server]))

    def step(model, r):
        key = jax.random.fold_in(rounds, r)
        model, reports = federation.one_round(whole, floats, key, model, r)
        return model, [report.loss for report in reports]

    return jax.lax.scan(step, start, jnp.arange(number))


@pytest.mark.parametrize(
    "method",
    ["fedproto", *(pytest.param(m, marks=pytest.mark.long) for m in LONG)],
)
def test_a_round_as_one_function_has_the_numbers_of_a_run_also_mapped_over_seeds(
    trained_runs, tmp_path, method
):
    if method in LONG:
        fields = {"data__clients": 4, "rounds": 2, "eval_every": 1, **PART}
        fields |= {"model__group": "mlp", "clients__store": "device", "seed": 1}
        c, path = runs.small(method, "digits", **fields), tmp_path
        runs.run(c, path)
    else:
        c, path = trained.CONFIGS[method](), trained_runs(method)
    exp = build.experiment(c, "cpu")
    mapped = jax.vmap(lambda seed: by_function(exp, seed, c.rounds))
    both = jax.jit(mapped)(jnp.arange(2))
    model, losses = jax.tree.map(lambda a: a[c.seed], both)
    state = runs.last_state(path, programs.shapes(exp, c.seed))[1]
    assert toys.gap(model.server, state.server) < 1e-5
    assert toys.gap(model.clients, state.clients) < 1e-5
    for r, record in enumerate(runs.records(path)):
        each = np.concatenate([np.asarray(of[r]) for of in losses])
        assert each[each > 0].mean() == pytest.approx(record["loss"], rel=1e-5)


def test_five_functions_lie_between_a_program_and_the_network():
    c = runs.small("fedproto", "digits", model__group="mlp")
    exp, paths = build.experiment(c, "cpu"), []
    (cohort,) = exp.cohorts

    def apply(*args):
        frames, package = traceback.extract_stack(), str(PACKAGE)
        paths.append([f.name for f in frames if f.filename.startswith(package)])
        return cohort.net.apply(*args)

    spied = dataclasses.replace(cohort, net=cohort.net._replace(apply=apply))
    exp = exp._replace(cohorts=(spied,))
    compiled = programs.with_floats(programs.build_programs(exp), exp.floats)
    state, context = programs.shapes(exp, c.seed), programs.round_context(c.seed, 0)
    who = jax.eval_shape(compiled.participate, context, state.server)
    down = jax.eval_shape(compiled.broadcast, state.server).message
    arguments = programs.RoundArguments(context, who, down)
    data = build.examples(exp.dataset), exp.train[0]
    paths.clear()
    jax.eval_shape(compiled.train[0], arguments, state.clients[0], *data)
    found = [path for path in paths if "local_step" in path]
    assert found and {len(path) - 1 for path in found} == {5}, found
