"""The persistent cache is on by default, the user's choice stays; garbage waits."""

import gc
import subprocess
import sys

import pytest

from jaxproto.training.compilation import garbage_later

SCRIPT = """
import jax, jax.numpy as jnp
from jaxproto.training.compilation import keep_compiled
jax.jit(lambda x: x + 1)(1.0)  # something was compiled before
print(keep_compiled())
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.jit(lambda x: jnp.sin(x) * 3)(2.0)
"""


def run(tmp_path, **settings):
    """Last line of the script's output in a process with its own cache folder."""
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    env = {"PATH": "/usr/bin:/bin", "JAX_PLATFORMS": "cpu", **home, **settings}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()[-1]


def test_programs_are_kept_in_the_users_cache_folder(tmp_path):
    folder = tmp_path / "cache" / "jaxproto" / "compiled"
    assert run(tmp_path) == str(folder)
    assert any(folder.iterdir())


def test_a_chosen_folder_stays_and_off_is_off(tmp_path):
    mine = str(tmp_path / "mine")
    assert run(tmp_path, JAX_COMPILATION_CACHE_DIR=mine) == mine
    assert run(tmp_path, JAXPROTO_CACHE="off") == "None"
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize("on", [True, False])
def test_garbage_is_collected_again_afterwards_if_it_was_before(on):
    gc.enable() if on else gc.disable()
    try:
        with pytest.raises(KeyError), garbage_later():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == on
    finally:
        gc.enable()
