"""The flags of a sweep, of `main.py`, `jaxproto run` and `jaxproto sweep`."""

import os
import re
import shlex
import sys
from collections.abc import Callable
from typing import NamedTuple

from absl import flags

from jaxproto.cli import configured
from jaxproto.errors import UserError

AXIS = (
    "FIELD=VALUES, once for each axis: a,b,c; 0:10; log:1e-3:1e1:5; lin:0:1:5; fields "
    "that go together as a=1,2+b=3,4"
)
AT_ONCE = (
    "auto (threads on CPU, all elsewhere), one, threads, all (as one program, as many "
    "as fit into memory) or a number (as one program)"
)


class Sweep(NamedTuple):
    """What the flags ask for."""

    asked: Callable[[], bool]
    run: Callable  # config, outdir, grace -> whether every cell has finished


def define(always: bool = False) -> Sweep:
    """Defines the flags.

    Args:
      always: a sweep even without --sweep: its axes are those of the file.
    """
    given = flags.DEFINE_multi_string("sweep", [], AXIS)
    at_once = flags.DEFINE_string("cells_at_once", "auto", AT_ONCE)
    share = flags.DEFINE_string("part", "0/1", "K/N: the K-th of N parts, from 0")

    def run(config, outdir: str, grace: float) -> bool:
        from jaxproto import sweeps
        from jaxproto.config import files
        from jaxproto.sweeps import report
        from jaxproto.training import program_cache

        axes = given.value or files.axes(configured.file())
        how = sweeps.How(at_once.value, program_cache.disk_cache, grace)
        plain, k_of_n = configured.plain(), _part(share.value)
        done = sweeps.sweep(config, axes, outdir, None, how, plain, k_of_n)
        for path in done.files:
            sys.stdout.write(f"written to {path}\n")
        for line in report.closing(done.plan, done.summaries, _alone(config)):
            sys.stdout.write(line + "\n")
        ended = [s["status"] for s in done.summaries.values()]
        return bool(ended) and all(status == "finished" for status in ended)

    def asked() -> bool:
        sweep = always or bool(given.value)
        for flag in () if sweep else (at_once, share):
            if flag.present:
                raise UserError(
                    f"--{flag.name}={flag.value} is for a sweep: add its axes, such as "
                    "--sweep=seed=0,1,2, or leave it out."
                )
        return sweep

    return Sweep(asked, run)


def _alone(config) -> str:
    """The command of the configuration without a sweep."""
    from jaxproto.config import flat, load

    file = configured.file()
    path, colon, presets = file.partition(":")
    if path.startswith(os.getcwd() + os.sep):
        path = os.path.relpath(path)
    given, usual = flat(config), flat(load(file))
    changed = [f"--config.{k}={v}" for k, v in given.items() if usual.get(k) != v]
    return shlex.join(
        ["python", "main.py", f"--config={path}{colon}{presets}", *changed]
    )


def _part(text: str) -> tuple[int, int]:
    if not re.fullmatch(r"\d+/\d+", text):
        raise UserError(f"--part={text} is no part; write K/N, such as --part=0/4.")
    k, n = text.split("/")
    return int(k), int(n)
