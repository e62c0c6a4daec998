"""JAX's own settings, wherever a run is started or read."""

import jax
import pytest
from rich.console import Console
from support import runs
from support.jax_setting import setting
from support.refusal import refused

import jaxproto
from jaxproto.nodes.flower.in_process import run_in_process
from jaxproto.training import xla_cache

QUIET = Console(quiet=True)
REFUSED = {  # setting -> another value than the required one
    "jax_enable_x64": True,
    "jax_threefry_partitionable": False,
    "jax_high_dynamic_range_gumbel": True,
    "jax_random_seed_offset": 1,
    "jax_disable_jit": True,
}
QUICK = ("jax_enable_x64", "jax_disable_jit")


@pytest.mark.parametrize(
    "name",
    [n if n in QUICK else pytest.param(n, marks=pytest.mark.long) for n in REFUSED],
)
def test_a_setting_that_changes_numbers_is_refused_everywhere(
    name, trained_runs, tmp_path
):
    path, c = trained_runs("fedproto"), runs.small()
    client = jaxproto.load(path).clients[0]
    x = client.data.test.x[:1]
    ways = [
        lambda: jaxproto.run(c, tmp_path / "run"),
        lambda: jaxproto.sweep(c, {"seed": (0, 1)}, tmp_path / "sweep"),
        lambda: jaxproto.check(c),
        lambda: jaxproto.load(path),
        lambda: client.predict(x),
        lambda: run_in_process(c, tmp_path / "nodes", console=QUIET),
    ]
    words = f"{name} is {REFUSED[name]} (by {name.upper()}, jax.config.update or a "
    for way in ways:
        with setting(name, REFUSED[name]), refused(words, "; set it to") as error:
            way()
        assert "\n" not in str(error.value)
    assert not [*tmp_path.iterdir()]


@pytest.mark.long
@pytest.mark.parametrize("method", ["protonorm", "fedproto", "local"])
def test_a_run_that_looks_for_nan_ends_with_the_same_numbers(method, tmp_path):
    c = runs.small(method, rounds=2)
    runs.run(c, tmp_path / "plain")
    with setting("jax_debug_nans", True):
        runs.run(c, tmp_path / "debug")
        client = jaxproto.load(tmp_path / "debug").clients[0]
        client.accuracies()
    assert runs.records(tmp_path / "plain") == runs.records(tmp_path / "debug")


def test_a_loaded_run_with_another_precision_of_products_says_so(
    trained_runs, monkeypatch
):
    said, path = [], trained_runs("fedproto")
    monkeypatch.setattr(xla_cache.logging, "warning", lambda _, text: said.append(text))
    jaxproto.load(path).evaluate("head")
    assert not said
    with jax.default_matmul_precision("highest"):
        jaxproto.load(path).evaluate("head")
    changed = "jax_default_matmul_precision was default and is highest"
    assert said == [f"{path} is a run with other settings of JAX: {changed}."]
