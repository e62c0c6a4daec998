"""A round as one pure function: the numbers of a run, under jit, scan and vmap."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import quick, runs, toys, trained

from jaxproto.experiment import build
from jaxproto.round import federation
from jaxproto.storage import checkpoint
from jaxproto.training import programs

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
        fields |= {"clients__store": "device", "seed": 1}
        c, path = runs.digits(method, **fields), tmp_path
        runs.run(c, path)
    else:
        c, path = trained.CONFIGS[method](), trained_runs(method)
    exp = build.experiment(c, "cpu")
    mapped = jax.vmap(lambda seed: by_function(exp, seed, c.rounds))
    both = jax.jit(mapped)(jnp.arange(2))
    model, losses = jax.tree.map(lambda a: a[c.seed], both)
    like = programs.shapes(exp, c.seed)
    found = checkpoint.restore_latest(path / "checkpoints", like)
    assert not found.notes
    assert toys.gap(model.server, found.state.server) < 1e-5
    assert toys.gap(model.clients, found.state.clients) < 1e-5
    for r, record in enumerate(runs.records(path)):
        each = np.concatenate([np.asarray(of[r]) for of in losses])
        assert each[each > 0].mean() == pytest.approx(record["loss"], rel=1e-5)
