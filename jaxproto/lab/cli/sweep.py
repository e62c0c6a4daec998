"""Runs a sweep: a run for every value of some fields. The same command resumes.

    jaxproto sweep --config=protonorm:digits --sweep=seed=0,1,2 --sweep=method.lam=1,10

Without --sweep the axes are those of `get_sweep()` in the configuration file. Runs
of these configurations in `runs/` count as cells of the sweep.
"""

from collections.abc import Sequence

from jaxproto.cli import config_command, run


def main(prog: str, arguments: Sequence[str]):
    """Runs or resumes a sweep; exit code 1 unless every cell finishes."""
    config_command.run_command(
        run.define_flags(always="sweep"), prog, arguments, __doc__
    )
