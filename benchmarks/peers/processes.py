"""A contender's program, run to its end or to a limit."""

import contextlib
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from benchmarks import measure

TAIL = 20  # lines that are shown of a program that failed


class Unfinished(Exception):
    """A program ended with a failure, or was ended."""


def output(program: list[str], limit: float, **environment: str) -> str:
    """What a program prints, in the repository and without a PYTHONPATH.

    Args:
      limit: seconds; then it is ended, as is what it started.
      environment: variables beside those of this process.

    Raises:
      Unfinished: it failed, or took too long; what it printed last is printed.
    """
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | environment
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "said"
        status = ended(program, log, env, limit)
        said = log.read_text(errors="replace")
    if status != 0:
        print(*said.splitlines()[-TAIL:], sep="\n")
        how = f"took more than {limit:g} s (--limit)"
        how = how if status is None else f"ended with status {status}"
        raise Unfinished(f"{how}; above is the end of what it said.")
    return said


def ended(program: list[str], log: Path, env: dict, limit: float) -> int | None:
    """The status of a program that has ended; None if it took too long."""
    with log.open("wb") as out:
        run = subprocess.Popen(
            program,
            cwd=measure.ROOT,
            env=env,
            stdout=out,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            return run.wait(limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(run.pid, signal.SIGKILL)
            run.wait()
