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
import pytest  # noqa: E402

from jaxproto.methods import METHODS  # noqa: E402

QUICK = ("fedproto", "fedavg", "refprotofl")  # one of each kind of exchange
OVER_METHODS = {  # files whose tests run for every method: for the others they are long
    "test_contract.py",
    "test_nominal.py",
    "test_program_cache.py",
    "test_statistics.py",
    "test_text.py",
}


def pytest_unconfigure():
    """Removes what was compiled, at the end of the process that made the folder."""
    if MADE is not None:
        shutil.rmtree(MADE, ignore_errors=True)


def group(item) -> str:
    """Name of the tests that share compiled programs: a file, a method's contract."""
    name, params = item.path.name, getattr(item, "callspec", None)
    each = name == "test_contract.py" and params is not None
    return f"{name}-{params.params['name']}" if each else name


def is_long(item) -> bool:
    """Whether a test is of one of many methods, and only `-m long` is to run it."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    method = params.get("name")
    return item.path.name in OVER_METHODS and method in METHODS and method not in QUICK


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items):
    """Tests of one group follow each other; those of most methods are long.

    Traces are made of many small objects that stay: garbage is looked for rarely.
    """
    for item in filter(is_long, items):
        item.add_marker(pytest.mark.long)
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
