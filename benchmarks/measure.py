"""Common tools of the benchmarks: flags, machine, timing, tables and JSON files.

Contenders are timed in turn (A B A B ...), so that other load on the machine affects
all of them alike. Tables show their medians.
"""

import datetime
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from absl import flags
from rich.console import Console
from rich.table import Table

from jaxproto.storage import records
from jaxproto.training import compiler

WIDTH = 140  # columns of tables in files and logs
ROOT = Path(__file__).parent.parent
BUSY = (
    "this machine is busy (load {:.1f}); measure on a quiet one. PyTorch slows down "
    "most, because its threads wait for each other: ratios against it are too good."
)
COMMON = {  # flags of several benchmarks: default, help
    "batch": (32, "examples per step"),
    "classes": (10, "number of classes K"),
    "clients": (8, "number of clients"),
    "data_dir": ("", "folder of TFDS data sets"),
    "dim": (512, "number of features d"),
    "form": ("auto", "value of clients_at_once"),
    "group": ("Ht0", "group of networks"),
    "network": ("mlp", "network of all clients"),
    "pixels": (32, "height and width"),
    "repeats": (5, "timed repetitions"),
    "rounds": (10, "timed rounds"),
    "test": (96, "test examples per client"),
    "train": (320, "training examples per client"),
}
DEFINE = {
    bool: flags.DEFINE_bool,
    float: flags.DEFINE_float,
    int: flags.DEFINE_integer,
    list: flags.DEFINE_list,
    str: flags.DEFINE_string,
}
NO_TORCH = "torch is not installed, so it is not measured (pip install torch)."


class Timing(NamedTuple):
    """Seconds of the repetitions of one contender, in their order."""

    seconds: list[float]
    parts: list[dict[str, float]]  # seconds by part; [] if it has no parts

    @property
    def median(self) -> float:
        """Median of the seconds."""
        return statistics.median(self.seconds)

    def record(self) -> dict:
        """Returns the entry of the JSON file: median, extremes, parts, all seconds."""
        return {
            "median": self.median,
            "min": min(self.seconds),
            "max": max(self.seconds),
            "parts": {
                name: statistics.median(p[name] for p in self.parts)
                for name in (self.parts[0] if self.parts else {})
            },
            "seconds": self.seconds,
        }


def alternate(
    contenders: Mapping[str, Callable[[], dict | None]],
    repeats: int,
    fewer: Mapping[str, int] | None = None,
) -> dict[str, Timing]:
    """Times contenders in turn, after a warm-up run of each.

    Args:
      contenders: functions by name; each does its work, waits for the result, and may
        return the seconds of its parts.
      repeats: repetitions of each contender.
      fewer: repetitions of contenders that are too slow for `repeats`.
    """
    times = {name: Timing([], []) for name in contenders}
    for run in contenders.values():
        run()
    for i in range(repeats):
        for name, run in contenders.items():
            if i < (fewer or {}).get(name, repeats):
                start = time.perf_counter()
                parts = run()
                times[name].seconds.append(time.perf_counter() - start)
                times[name].parts.extend([parts] * bool(parts))
    return times


def timed(run: Callable[[], dict | None], repeats: int) -> Timing:
    """Times one contender, after a warm-up run."""
    return alternate({"": run}, repeats)[""]


def waiting(f: Callable, *args) -> Callable[[], None]:
    """Returns a contender that calls a function and waits for its results."""

    def run():
        jax.block_until_ready(f(*args))

    return run


class Clock:
    """Stopwatch that adds up seconds by the name of a part."""

    def __init__(self):
        """Starts the first part."""
        self.parts, self._last = {}, time.perf_counter()

    def lap(self, name: str):
        """Adds the time since the last lap to the part `name`."""
        now = time.perf_counter()
        self.parts[name] = self.parts.get(name, 0.0) + now - self._last
        self._last = now


def exponents(
    rows: Sequence[Mapping], factor: str, kinds: Iterable[str]
) -> dict[str, float | None]:
    """Fits the slope b of value = a * factor**b, by least squares of logarithms.

    Args:
      rows: results for several values of the factor; a single one has no slope.
      factor: key of the factor.
      kinds: keys of the values.
    """

    def slope(kind):
        x, y = ([row[k] for row in rows] for k in (factor, kind))
        return float(np.polyfit(np.log(x), np.log(y), 1)[0])

    return {kind: slope(kind) if len(rows) > 1 else None for kind in kinds}


def flag_values(*common: str, **given) -> flags.FlagValues:
    """Makes the flags of one benchmark, with `--out`.

    Args:
      *common: names of flags of `COMMON`.
      **given: other defaults of such flags; of other flags default, help, and the least
        value if there is one.
    """
    values = flags.FlagValues()
    out = "", "JSON file; default: benchmarks/results/<name>-<platform>.json"
    rows = {"out": out, **{name: COMMON[name] for name in common}, **given}
    for name, row in rows.items():
        default, *rest = row if isinstance(row, tuple) else (row, COMMON[name][1])
        DEFINE[type(default)](name, default, *rest, flag_values=values)
    return values


def check_choices(settings: Mapping, name: str, known: Iterable[str]):
    """Exits if a value of a list flag is unknown."""
    if {*settings[name]} - {*known}:
        given, choices = ",".join(settings[name]), ", ".join(known)
        sys.exit(f"error: --{name}={given}; they are {choices}.")


def parse(values: flags.FlagValues, argv: Sequence[str], about: str) -> dict:
    """Returns settings by name from the command line; exits on a wrong one."""
    if {"--help", "-h"} & {*argv}:
        print(about, values.get_help(), sep="\n")
        sys.exit(0)
    try:
        rest = values(list(argv))[1:]
    except flags.Error as e:
        sys.exit(f"error: {e}")
    if rest:
        sys.exit(f"error: {' '.join(rest)}: only flags are understood, see --help.")
    if load() > 0.25 * cores():
        print(BUSY.format(load()))
    return {name: values[name].value for name in values}


def whole(texts: Iterable[str]) -> list[int]:
    """Converts the values of a list flag to whole numbers."""
    return [int(text) for text in texts]


def cores() -> int:
    """Returns the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count()


def load() -> float:
    """Returns the load average of the last minute."""
    return os.getloadavg()[0]


def machine() -> dict:
    """Describes the machine that the numbers were measured on."""
    device = jax.devices()[0]
    stats = device.memory_stats() or {}
    on_cpu = device.platform == "cpu"
    return {
        "cpu": cpu_model(),
        "cores": cores(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "platform": device.platform,
        "accelerator": None if on_cpu else device.device_kind,
        "accelerators": 0 if on_cpu else jax.device_count(),
        "accelerator_bytes": stats.get("bytes_limit"),
        "system": platform.platform(),
    }


def cpu_model() -> str:
    """Returns the model name of the processor, where the system knows it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1] for line in lines if line.startswith("model name")]
    return names[0].strip() if names else platform.processor()


def versions() -> dict:
    """Returns the versions of the packages that matter, and the commit."""
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    try:
        commit = subprocess.run(git, capture_output=True, text=True).stdout.strip()
    except OSError:
        commit = ""
    torch = importlib.metadata.version("torch") if has_torch() else None
    return {**records.versions(), "torch": torch, "commit": commit or None}


def has_torch() -> bool:
    """Returns whether PyTorch is installed."""
    return importlib.util.find_spec("torch") is not None


def unplaced(value):
    """Returns a setting as records show it: only the last part of an absolute path."""
    absolute = isinstance(value, str) and Path(value).is_absolute()
    return Path(value).name if absolute else value


def write(name: str, settings: Mapping, results) -> Path:
    """Writes results, settings and machine as JSON; returns the file."""
    file = f"{name}-{jax.default_backend()}.json"
    path = Path(settings["out"] or ROOT / "benchmarks" / "results" / file)
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "benchmark": name,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "load_at_the_end": load(),
        "versions": versions(),
        "settings": {k: unplaced(v) for k, v in settings.items() if k != "out"},
        "results": results,
    }
    records.write_json(path, record)
    return path


def finish(name: str, settings: Mapping, results, tables: Sequence[Table]) -> Path:
    """Prints the tables and writes the JSON file; returns the file."""
    path = write(name, settings, results)
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH
    for view in tables:
        console.print(view)
    console.print(f"written to {path}", highlight=False, soft_wrap=True)
    return path


def table(title: str, columns: Iterable[str], rows: Iterable[Sequence]) -> Table:
    """Makes a table, with text aligned to the left and numbers to the right."""
    rows, view = list(rows), Table(title=title)
    for i, column in enumerate(columns):
        is_text = any(isinstance(row[i], str) for row in rows)
        view.add_column(column, justify="left" if is_text else "right", no_wrap=True)
    for row in rows:
        view.add_row(*(cell(value) for value in row))
    return view


def cell(value) -> str:
    """Formats one entry: three digits of a number, a dash for None."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def program_memory(compiled: jax.stages.Compiled) -> dict[str, int | None]:
    """Returns bytes on one device by kind; `need` is the total, shared ones once."""
    analysis = compiled.memory_analysis()
    kinds = ("argument", "output", "alias", "temp", "generated_code")
    found = {kind: getattr(analysis, f"{kind}_size_in_bytes", None) for kind in kinds}
    return {**found, "need": compiler.required_bytes([compiled])}


def fresh(module: str, function: str, arguments: Mapping, **environment: str):
    """Calls `module.function(**arguments)` in a new process, by files of JSON."""
    with tempfile.TemporaryDirectory() as folder:
        given, got = (Path(folder) / name for name in ("arguments", "result"))
        given.write_text(json.dumps(dict(arguments)))
        command = ["-m", "benchmarks.measure", module, function, str(given), str(got)]
        env = {**os.environ, **environment}
        subprocess.run([sys.executable, *command], cwd=ROOT, env=env, check=True)
        return json.loads(got.read_text())


if __name__ == "__main__":
    module_, function_, given_, got_ = sys.argv[1:]
    call = getattr(importlib.import_module(module_), function_)
    records.write_json(got_, call(**json.loads(Path(given_).read_text())))
