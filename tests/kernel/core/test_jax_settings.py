"""JAX's own settings: what changes numbers is refused, what may differ is recorded."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from support import runs
from support.commands import called
from support.jax_setting import setting
from support.refusal import refused

import jaxproto
from jaxproto.core import jax_settings
from jaxproto.storage import workdir

PACKAGE = Path(jaxproto.__file__).parent


def test_a_context_is_a_setting():
    with jax.enable_x64(True), refused("jax_enable_x64 is True", "32 bits"):
        jaxproto.check(runs.small())


@pytest.mark.long
def test_without_jit_one_round_is_debugged(capsys):
    with setting("jax_disable_jit", True):
        said = called("run", "--config=local:spiral", "--config.rounds=1")
        assert "--debug (jaxproto.debug)" in said
        assert not called("run", "--config=local:spiral", "--debug")
    assert "local training and upload:" in capsys.readouterr().out


@pytest.mark.parametrize(
    "method", ["local", pytest.param("protonorm", marks=pytest.mark.long)]
)
def test_another_default_generator_gives_the_same_keys(method, tmp_path):
    c, records = runs.small(method, rounds=2), []
    for name in ("threefry2x32", "rbg"):
        with setting("jax_default_prng_impl", name):
            runs.run(c, tmp_path / name)
        records.append(runs.records(tmp_path / name))
    assert records[0] == records[1]


def test_the_package_makes_keys_in_one_place():
    one = PACKAGE / "core" / "jax_settings.py"
    making = re.compile(r"random\.(key|PRNGKey)\b(?!_)")
    files = {f for f in PACKAGE.rglob("*.py") if making.search(f.read_text())}
    assert files == {one}


def test_another_precision_of_products_is_refused_when_a_run_is_resumed(tmp_path):
    c = runs.small()
    runs.run(c, tmp_path)
    with (
        jax.default_matmul_precision("highest"),
        refused("jax_default_matmul_precision was default and is highest", "began"),
    ):
        runs.run(c, tmp_path)
    workdir.check_config(tmp_path, c)


FORK = """
import multiprocessing, os, subprocess, sys
import numpy as np
import jaxproto
from support import runs

def work(queue):
    try:
        jaxproto.check(runs.small())
        queue.put("checked")
    except jaxproto.UserError as e:
        queue.put(str(e))

def child(kind):
    context = multiprocessing.get_context(kind)
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,), daemon=True)
    process.start()
    print(kind, queue.get(timeout=120), flush=True)
    process.join()

if __name__ == "__main__":
    if sys.argv[1] == "before":
        child("fork")
    else:
        jaxproto.check(runs.small())
        child("fork")
    if sys.argv[1] == "anew":
        child("spawn")
        subprocess.run([sys.executable, "-c", "print('exec')"], preexec_fn=os.getpid)
"""


LONG = (pytest.param(when, marks=pytest.mark.long) for when in ("before", "anew"))


@pytest.mark.parametrize("when", ("after", *LONG))
def test_a_fork_of_a_process_that_has_used_jax_is_refused(tmp_path, when):
    script = tmp_path / "script.py"
    script.write_text(FORK)
    roots = os.pathsep.join(map(str, (PACKAGE.parent, PACKAGE.parent / "tests")))
    env = {**os.environ, "PYTHONPATH": roots}
    command = [sys.executable, "-W", "ignore", script, when]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert not done.returncode and not done.stderr, done.stderr
    lines = done.stdout.splitlines()
    if when == "before":
        assert lines == ["fork checked"]
    else:
        assert lines[0].startswith("fork this process is a fork of one that has used")
        assert "get_context('spawn')" in lines[0]
        assert lines[1:] == ["spawn checked", "exec"] * (when == "anew")


# ------------------------------------------------------------------- NaN


def test_a_loss_that_makes_nan_is_named_with_its_line(tmp_path, monkeypatch):
    file = tmp_path / "mine.py"
    file.write_text(
        "import dataclasses\n"
        "import jax.numpy as jnp\n"
        "from jaxproto.methods.local import local\n"
        "def mine(spec):\n"
        "    method = local(spec)\n"
        "    def loss(net, params, norm, batch, *others):\n"
        "        value, aux = method.loss(net, params, norm, batch, *others)\n"
        "        return value + jnp.log(value - 1e6), aux\n"
        "    return dataclasses.replace(method, loss=loss)\n"
    )
    inside = {"__name__": "mine"}
    exec(compile(file.read_text(), str(file), "exec"), inside)
    monkeypatch.setitem(jaxproto.METHODS, "mine", inside["mine"])
    c = runs.small("mine")
    with (
        setting("jax_debug_nans", True),
        refused("program 'train' makes NaN", "encountered in log", f"line 8 of {file}"),
    ):
        runs.run(c, tmp_path / "run")


def test_keys_are_those_of_threefry():
    assert str(jax.random.key_impl(jax_settings.make_key(3))) == "threefry2x32"
    assert np.array_equal(jax.random.key_data(jax_settings.make_key(3)), [0, 3])
