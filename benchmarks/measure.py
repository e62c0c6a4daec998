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

WIDTH = 140  # columns of tables in files and logs
ROOT = Path(__file__).parent.parent
BUSY = (
    "this machine is busy (load {:.1f}); measure on a quiet one. PyTorch slows down "
    "most, because its threads wait for each other: ratios against it are too good."
)
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


def ratio(slow: Timing, fast: Timing) -> float:
    """Returns how many times faster `fast` is, by medians."""
    return slow.median / fast.median


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


def exponent(factors: Sequence[float], values: Sequence[float]) -> float:
    """Fits the slope b of value = a * factor**b, by least squares of logarithms."""
    return float(np.polyfit(np.log(factors), np.log(values), 1)[0])


def flag_values() -> flags.FlagValues:
    """Makes the flags of one benchmark, with `--out`."""
    values = flags.FlagValues()
    flags.DEFINE_string(
        "out",
        "",
        "JSON file; default: benchmarks/results/<name>-<platform>.json",
        flag_values=values,
    )
    return values


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
        text = any(isinstance(row[i], str) for row in rows)
        view.add_column(column, justify="left" if text else "right", no_wrap=True)
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


def peak_bytes() -> int:
    """Returns the peak resident memory of this process, without its parent's."""
    try:
        status = Path("/proc/self/status").read_text().splitlines()
        fields = dict(line.split(":", 1) for line in status)
        return int(fields["VmHWM"].split()[0]) * 1024
    except (OSError, KeyError):
        return records.peak_memory_bytes()["host"]


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
