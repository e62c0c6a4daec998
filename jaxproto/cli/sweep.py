"""Runs a sweep: one experiment for every value of some fields; the same command resumes.

  jaxproto sweep --config=configs/protonorm.py:digits \\
    --sweep=seed=0,1,2 --sweep=method.upscale=1,10,50,100

Values: a,b,c; 0:10 for whole numbers; log:1e-3:1e1:5 and lin:0:1:5; fields that go
together: a=1,2+b=3,4. Without --sweep the axes are those of `get_sweep()` in the file.
"""

from collections.abc import Sequence

from jaxproto.cli import configured, run


def main(prog: str, arguments: Sequence[str]):
    """Runs or resumes a sweep; exit code 1 unless every cell finishes."""
    configured.start(run.define(always_sweep=True), prog, arguments, __doc__)
