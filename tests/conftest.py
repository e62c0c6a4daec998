"""Settings of all tests."""

import gc
import os
import shutil
import tempfile

os.environ.setdefault("JAXPROTO_CACHE", "off")  # tests leave the user's cache alone
MADE = None  # the folder of compiled programs, where this process has made it
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # One for all workers and their children: most programs are compiled once a run.
    MADE = tempfile.mkdtemp(prefix="jaxproto-tests-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = MADE
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"

import jax  # noqa: E402 (it reads these variables once)


def pytest_unconfigure():
    """Removes what was compiled, at the end of the process that made the folder."""
    if MADE is not None:
        shutil.rmtree(MADE, ignore_errors=True)


def group(item) -> str:
    """Name of the tests that share compiled programs: a file, a method's contract."""
    name, params = item.path.name, getattr(item, "callspec", None)
    each = name == "test_contract.py" and params is not None
    return f"{name}-{params.params['name']}" if each else name


def pytest_collection_modifyitems(items):
    """Tests of one group follow each other.

    Traces are made of many small objects that stay: garbage is looked for rarely.
    """
    items.sort(key=group)
    gc.freeze()
    gc.set_threshold(200_000, 50, 1000)


def pytest_runtest_teardown(item, nextitem):
    """Drops compiled programs between groups.

    Every one holds memory maps, of which Linux gives a process 65,530: all of the
    programs of all tests together abort it.
    """
    if nextitem is None or group(item) != group(nextitem):
        jax.clear_caches()
