"""The persistent cache is on by default, the user's choice stays; garbage waits."""

import gc
import subprocess
import sys

import pytest

from jaxproto.training.xla_cache import gc_paused

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it

SCRIPT = """
import jax, jax.numpy as jnp
from jaxproto.training.xla_cache import enable_xla_cache
jax.jit(lambda x: x + 1)(1.0)  # something was compiled before
print(enable_xla_cache())
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
jax.jit(lambda x: jnp.sin(x) * 3)(2.0)
"""


def run(tmp_path, script, **settings):
    home = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    env = {"PATH": "/usr/bin:/bin", "JAX_PLATFORMS": "cpu", **home, **settings}
    options = {"env": env, "capture_output": True, "text": True, "check": True}
    return subprocess.run([sys.executable, "-c", script], **options)


def chosen(tmp_path, **settings):
    return run(tmp_path, SCRIPT, **settings).stdout.split()[-1]


def test_programs_are_kept_in_the_users_cache_folder_unless_another_is_chosen(tmp_path):
    """And not where others can write."""
    mine = str(tmp_path / "mine")
    assert chosen(tmp_path, JAX_COMPILATION_CACHE_DIR=mine) == mine
    assert chosen(tmp_path, JAXPROTO_CACHE="off") == "None"
    folder = tmp_path / "cache" / "jaxproto" / "compiled"
    assert not folder.exists()
    assert chosen(tmp_path) == str(folder)
    assert any(folder.iterdir())
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o775)
    done = run(tmp_path, SCRIPT)
    assert done.stdout == "None\n" and "chmod 700" in done.stderr


DAMAGE = """
import sys, zlib, jax, jax.numpy as jnp
from jax.experimental.compilation_cache import compilation_cache
from jaxproto.training import xla_cache as compilation
told = []
compilation.warn_once = told.append
folder = compilation.enable_xla_cache()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
def start():
    assert compilation.enable_xla_cache() == folder
    jax.clear_caches()
    compilation_cache.reset_cache()
    assert jax.jit(lambda x: jnp.sin(x) * 3)(2.0) > 2
start()
(file,) = [f for f in folder.glob("*-cache") if "_lambda" in f.name]
whole = file.read_bytes()
for damaged in (whole[: len(whole) // 2], whole[:99] + b"?" + whole[100:], b""):
    file.write_bytes(damaged)
    start()
    assert told.pop() == f"1 damaged in {folder}: removed, and compiled anew."
    zlib.decompress(file.read_bytes())
    start()
    assert not told
"""


def test_a_damaged_file_of_jax_is_removed_and_compiled_anew_at_the_next_start(tmp_path):
    """JAX never writes a file that is there: it would warn at every start."""
    assert not run(tmp_path, DAMAGE).stderr


def test_garbage_is_collected_again_afterwards():
    with pytest.raises(KeyError), gc_paused():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()
