"""Programs of contenders, run to their end or to a time limit."""

import contextlib
import os
import signal
import subprocess
import tempfile
from pathlib import Path

from benchmarks import measure

TAIL = 20  # lines that are shown of a program that failed


class Unfinished(Exception):
    """A program failed, or was ended at the time limit."""


def output(program: list[str], limit: float, **environment: str) -> str:
    """Returns the output of a program, run in the repository without a PYTHONPATH.

    Args:
      program: command line.
      limit: seconds after which the program and its children are ended.
      environment: variables beside those of this process.

    Raises:
      Unfinished: it failed, or took too long; its last lines are printed.
    """
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | environment
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "output"
        status = ended(program, log, env, limit)
        text = log.read_text(errors="replace")
    if status != 0:
        print(*text.splitlines()[-TAIL:], sep="\n")
        reason = f"took more than {limit:g} s (--limit)"
        reason = reason if status is None else f"ended with status {status}"
        raise Unfinished(f"{reason}; its last lines are above.")
    return text


def ended(program: list[str], log: Path, env: dict, limit: float) -> int | None:
    """Returns the exit status of a program; None if it took too long."""
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
