"""Breaks the package in one place at a time and says which test notices.

    python -m tests.support.mutants --seed=0 --count=10

Mutants are drawn from MUTANTS without replacement. Each is made in a copy of the last
commit, in which pytest runs as in the README but ends at the first failure.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
# The test of MUTANTS itself fails under every mutant.
OF_MUTANTS = "tests/repository/test_selection.py::test_every_mutant_breaks_a_line_"
OF_MUTANTS += "that_is_there_once"


class Mutant(NamedTuple):
    """Text that stands in a file of jaxproto/ once, and what it becomes."""

    name: str
    file: str
    text: str
    becomes: str


BY_FILE = {  # name of a mutant, text that stands in the file once, what it becomes
    "core/batches.py": [
        (
            "repeated examples count",
            "1)\n    mask_B = (at_B",
            "1)\n    mask_B = (0 * at_B",
        ),
    ],
    "round/client.py": [
        ("fixed parts train", "where(on, a, 0.0)", "where(on, a, a)"),
        ("resume of the optimiser state", "norm=norm, opt=opt)", "norm=norm)"),
        ("rate before the optimiser", "scale(task.local.factor, ", "scale(1.0, "),
        ("random streams without ids", "key, client.id)", "key, 0)"),
    ],
    "data/partitions/partition.py": [("validation rows train", "[~is_held]", "")],
    "round/federation.py": [
        ("who sits out receives", "trains_R, after", "trains_R | True, after"),
        ("late uploads arrive", "reports & in_time, packed", "reports, packed"),
        ("format of the broadcast", "formats.down)", "'float32')"),
    ],
    "round/simulator.py": [
        ("results by cohort", "cohort.ids for cohort", "cohort.ids[::-1] for cohort"),
        ("one key for all rounds", "_keys(key)[2], r)", "_keys(key)[2], 0)"),
    ],
    "nodes/flower/accept.py": [
        ("counts of strangers", "count) > most_C", "count) < 0")
    ],
    "prototypes/kernels.py": [
        ("alignment along the gradient", "e(-force_CD", "e(force_CD"),
        ("momentum of the alignment", "(decay=0.9)", "(decay=0.8)"),
        ("decay of the alignment's rate", "** jnp.ceil", "** jnp.floor"),
        ("a mean over all clients", "= (up.count > 0)", "= (up.count >= 0)"),
    ],
    "prototypes/losses.py": [
        ("CPKD weight of the pull", "* emphasis_C[y_B]", "* 1.0"),
        ("a class of one side pulls", " & (target.count > 0)", ""),
    ],
    "prototypes/masks.py": [
        ("exchanges that raise overlap", "if fall < 0", "if fall > 0")
    ],
    "methods/fedproto.py": [("upscale on the client", "scale(upscale)", "scale(1.0)")],
    "methods/fedtgp.py": [
        ("FedTGP margin", "n jnp.minimum(", "n jnp.maximum("),
        ("FedTGP: rows not sent", "(at_B < num)", "(at_B >= 0)"),
    ],
    "methods/refprotofl.py": [
        ("RefProtoFL sends least", "k(jnp.abs(v", "k(-jnp.abs(v"),
        ("public anchors lose", "public.count[:, None] >", "own.count[:, None] <="),
    ],
    "methods/tinyproto.py": [("sum or mean of APS", "(mu * holders_C)[:, None]", "mu")],
    "round/participation.py": [
        (
            "dropouts stop training too",
            "participants._replace(reports=participants.reports & arrives_K)",
            "Participation(*[p & arrives_K for p in participants])",
        ),
    ],
    "storage/records.py": [
        ("test accuracy chooses", "rows] if validation is None else", "rows] or"),
    ],
    "training/run.py": [
        ("a record outlives its checkpoint", ", int(first))", ", int(first) + 1)"),
    ],
    "prototypes/transforms.py": [
        ("forgotten classes", ", kept.mean)", ", 0 * kept.mean)")
    ],
    "round/uploads.py": [("lost uploads arrive", "(reports, a, ", "(True, a, ")],
    "wire/message.py": [
        ("one row for all clients", "(rows)[row], part", "(rows)[0], part"),
        ("wire rounding down", "clip(jnp.round(", "clip(jnp.floor("),
    ],
}
MUTANTS = [
    Mutant(row[0], file, *row[1:]) for file, rows in BY_FILE.items() for row in rows
]


def broken(text: str, mutant: Mutant) -> str:
    """Returns a file's text with the mutant in it."""
    if text.count(mutant.text) != 1:
        raise ValueError(f"{mutant.file}: {text.count(mutant.text)} x {mutant.text}")
    return text.replace(mutant.text, mutant.becomes)


def first_failure(mutant: Mutant) -> str:
    """Runs pytest on a copy with the mutant; returns the test that fails first."""
    with tempfile.TemporaryDirectory() as folder:
        clone = ["git", "clone", "-q", str(ROOT), folder]
        subprocess.run(clone, check=True)
        file = Path(folder) / "jaxproto" / mutant.file
        file.write_text(broken(file.read_text(), mutant))
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2"]
        command += ["--dist", "loadfile", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, "--deselect", OF_MUTANTS],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
        )
    if done.returncode == 0:
        return "SURVIVED"
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    return found[1] if found else done.stdout[-300:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10)
    args = parser.parse_args()
    for mutant in random.Random(args.seed).sample(MUTANTS, args.count):
        test = first_failure(mutant)
        print(f"| {mutant.name} | `{mutant.file}` | `{test}` |", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
