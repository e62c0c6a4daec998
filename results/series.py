"""A series of runs, one after the other; finished ones are left as they are."""

import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
Run = tuple[str, str, Sequence[str]]  # name, configuration, flags


def make(runs: Iterable[Run], argv: Sequence[str]):
    """Makes the runs and exits with the names of those that failed.

    Args:
      runs: interrupted ones resume.
      argv: OUT DATA_DIR [WORD...]: the folder that receives a work directory per run,
        TFDS's folder, and words of which a run's name must hold one, if there are any.
    """
    if len(argv) < 2:
        sys.exit("usage: python -m results.SERIES.run OUT DATA_DIR [WORD...]")
    out, data_dir, *words = argv
    failed = []
    for name, config, flags in runs:
        if words and not any(word in name for word in words):
            continue
        command = [sys.executable, "main.py", f"--config=configs/{config}"]
        command += [f"--config.data.data_dir={data_dir}", f"--workdir={out}/{name}"]
        if subprocess.run([*command, *flags], cwd=ROOT, check=False).returncode:
            failed.append(name)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)
