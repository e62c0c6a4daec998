"""Settings of all tests: compiled programs, which tests are long, order, slices."""

import gc
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

os.environ["JAXPROTO_CACHE"] = "off"  # tests leave the user's cache alone
MADE = None  # the folder of compiled programs, where this process has made it
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    # One for all workers and their children: most programs are compiled once a run.
    MADE = tempfile.mkdtemp(prefix="jaxproto-tests-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = MADE
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.1"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "0"

import jax  # noqa: E402 (it reads these variables once)
import pytest  # noqa: E402
from support import quick, selection, toys, trained  # noqa: E402

from jaxproto.methods import METHODS  # noqa: E402

FAST = (  # a fifth of the compile time
    "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false "
    "--xla_cpu_parallel_codegen_split_count=1"
)
QUICK = ("fedproto",)  # for the others, what runs for every method is long
# None, sparse prototypes, two networks, the server's own training:
LANDING = ("local", "fedavg", "tinyproto", "fml", "refprotofl", "fedtgp")
SECONDS = selection.seconds_table()

trained_runs = trained.trained_runs  # a fixture
no_pictures = quick.no_pictures  # a fixture of all tests


def pytest_addoption(parser):
    parser.addoption("--slice", help="K/N: of the long tests those of this landing")


def pytest_configure(config):
    """Compiles in less time, unless `XLA_FLAGS` is set, if only to nothing.

    XLA reads the variable when it is first used, and ends the process at a flag that it
    does not know: the flags are those of the versions of JAX that were tried.
    """
    config.option.loadscopereorder = False  # pytest-xdist: files in the order below
    config.option.maxworkerrestart = "0"  # else xdist can hang (its issue 1378)
    if jax.__version_info__ < (0, 11):
        os.environ.setdefault("XLA_FLAGS", FAST)


def pytest_unconfigure():
    """Removes what was compiled, at the end of the process that made the folder."""
    if MADE is not None:
        shutil.rmtree(MADE, ignore_errors=True)


def method_of(item) -> str | None:
    """Method of a test that runs for every method."""
    params = getattr(getattr(item, "callspec", None), "params", {})
    name, over = params.get("name"), item.path.name in selection.OVER_METHODS
    return name if over and name in METHODS else None


def file_of(item) -> str:
    return item.path.relative_to(selection.ROOT).as_posix()


def seconds_of(config) -> dict[str, float]:
    """Seconds of the groups of the kind that is run."""
    return SECONDS["long" if config.option.markexpr == "long" else "default"]


def group(item) -> str:
    """Name of the tests that share compiled programs."""
    return selection.group_of(item.nodeid, seconds_of(item.config))


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config, items):
    """Marks the tests of most methods as long, and puts the longest groups first.

    Traces are made of many small objects that stay: garbage is looked for rarely.
    """
    for item in items:
        if method_of(item) and method_of(item) not in QUICK:
            item.add_marker(pytest.mark.long)
        if item.path.name == "test_contract.py" and method_of(item) in LANDING:
            item.add_marker(pytest.mark.landing)
    seconds = seconds_of(config)
    items.sort(key=lambda i: (-seconds.get(group(i), selection.UNKNOWN), group(i)))
    if config.option.slice:
        choose(config, items, seconds)
    gc.freeze()
    gc.set_threshold(200_000, 50, 1000)


def choose(config, items, seconds):
    """Keeps the long tests of one landing, and notes how many of which kind."""
    k, n = map(int, config.option.slice.split("/"))
    long = [i for i in items if i.get_closest_marker("long")]
    sliced = selection.slices({group(i) for i in long}, seconds, n)[k % n]
    changed = selection.changed_files()
    concerned = {group(i) for i in long if selection.concerns(file_of(i), changed)}
    fits = selection.fitting(concerned - sliced, seconds, selection.CHANGED)
    reasons = {id(i): reason(i, sliced, fits) for i in long}
    kept = [i for i in items if reasons.get(id(i))]
    config.hook.pytest_deselected(items=[i for i in items if not reasons.get(id(i))])
    items[:] = kept
    config.chosen = Counter(reasons[id(i)] for i in kept)
    config.not_run = sorted(concerned - sliced - {*fits})


def reason(item, sliced, fits) -> str:
    if item.get_closest_marker("landing"):
        return "at every landing"
    if group(item) in sliced:
        return "slice"
    return "changed since yesterday" if group(item) in fits else ""


def pytest_report_collectionfinish(config):
    """Says which long tests this landing runs, and which it leaves out."""
    if not hasattr(config, "chosen"):
        return []
    counts = ", ".join(f"{n} {why}" for why, n in sorted(config.chosen.items()))
    left = [f"  changed, no time for: {name}" for name in config.not_run]
    return [f"slice {config.option.slice} of the long tests: {counts}", *left]


def pytest_runtest_teardown(item, nextitem):
    """Drops compiled programs between groups.

    Every one holds memory maps, of which Linux gives a process 65,530: all of the
    programs of all tests together abort it. A test counts how often one is traced.
    """
    if nextitem is None or group(item) != group(nextitem):
        jax.clear_caches()
        toys.starter.cache_clear()
        toys.programs.cache_clear()


def pytest_runtest_logreport(report):
    """With `JAXPROTO_TEST_SECONDS=FILE`: a line with the seconds of each phase."""
    file = os.environ.get("JAXPROTO_TEST_SECONDS")
    if file and "PYTEST_XDIST_WORKER" not in os.environ:
        with Path(file).open("a") as f:
            f.write(f"{report.duration:.3f}\t{report.nodeid}\n")
