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
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Mutant(NamedTuple):
    """Text that stands in a file of jaxproto/ once, and what it becomes."""

    name: str
    file: str
    text: str
    becomes: str


MUTANTS = (
    Mutant(
        "one row for all clients",
        "wire/message.py",
        "(rows)[row], part",
        "(rows)[0], part",
    ),
    Mutant("alignment along the gradient", "kernels.py", "e(-force_CD", "e(force_CD"),
    Mutant("momentum of the alignment", "kernels.py", "(decay=0.9)", "(decay=0.8)"),
    Mutant(
        "decay of the alignment's rate", "kernels.py", "** jnp.ceil", "** jnp.floor"
    ),
    Mutant(
        "a mean over all clients", "kernels.py", "= (up.count > 0)", "= (up.count >= 0)"
    ),
    Mutant("exchanges that raise overlap", "masks.py", "if fall < 0", "if fall > 0"),
    Mutant(
        "upscale on the client", "methods/fedproto.py", "scale(upscale)", "scale(1.0)"
    ),
    Mutant(
        "sum or mean of APS", "methods/tinyproto.py", "(mu * holders_C)[:, None]", "mu"
    ),
    Mutant("CPKD weight of the pull", "losses.py", "* emphasis_C[y_B]", "* 1.0"),
    Mutant("FedTGP margin", "methods/fedtgp.py", "n jnp.minimum(", "n jnp.maximum("),
    Mutant("FedTGP: rows not sent", "methods/fedtgp.py", "(at_B < num)", "(at_B >= 0)"),
    Mutant(
        "training on validation rows",
        "data/partitions/training_rows.py",
        "rows[~is_held]",
        "rows",
    ),
    Mutant(
        "test accuracy chooses the round",
        "storage/records.py",
        "rows] if validation is None else validation",
        "rows]",
    ),
    Mutant("fixed parts train", "client.py", "where(on, a, 0.0)", "where(on, a, a)"),
    Mutant("who sits out trains", "federation.py", "trains_R, sh", "True, sh"),
    Mutant("counts of strangers", "flower/accept.py", "count) > most_C", "count) < 0"),
    Mutant(
        "late uploads arrive",
        "federation.py",
        "reports & in_time, packed",
        "reports, packed",
    ),
    Mutant("lost uploads arrive", "uploads.py", "(reports, a, ", "(True, a, "),
    Mutant(
        "dropouts stop training too",
        "participation.py",
        "participants._replace(reports=participants.reports & arrives_K)",
        "Participation(*[p & arrives_K for p in participants])",
    ),
    Mutant(
        "wire rounding down", "wire/message.py", "clip(jnp.round(", "clip(jnp.floor("
    ),
    Mutant("format of the broadcast", "federation.py", "formats.down)", "'float32')"),
    Mutant(
        "resume of the optimiser state",
        "client.py",
        "before.replace(params=params, norm=norm, opt=opt)",
        "before.replace(params=params, norm=norm)",
    ),
    Mutant(
        "the last record outlives its checkpoint",
        "training/lifecycle.py",
        "/ METRICS, start)",
        "/ METRICS, start + 1)",
    ),
    Mutant(
        "rate before the optimiser",
        "client.py",
        "scale(task.local.factor, ",
        "scale(1.0, ",
    ),
    Mutant("a class of one side pulls", "losses.py", " & (target.count > 0)", ""),
    Mutant(
        "RefProtoFL sends least", "methods/refprotofl.py", "k(jnp.abs(v", "k(-jnp.abs(v"
    ),
    Mutant(
        "external anchors lose to the clients' own",
        "methods/refprotofl.py",
        "public.count[:, None] > 0, public.mean, own.mean",
        "own.count[:, None] > 0, own.mean, public.mean",
    ),
    Mutant("forgotten classes", "transforms.py", ", kept.mean)", ", 0 * kept.mean)"),
    Mutant(
        "repeated examples of short clients count in the loss",
        "batches.py",
        "(at_B < data.shard.size).astype(jnp.float32)\n    row",
        "jnp.ones(size)\n    row",
    ),
    Mutant("random streams without ids", "client.py", "key, client.id)", "key, 0)"),
)


def broken(text: str, mutant: Mutant) -> str:
    """Returns a file's text with the mutant in it.

    Raises:
      ValueError: the mutant's text is not there, or more than once.
    """
    if text.count(mutant.text) != 1:
        raise ValueError(f"{mutant.file}: {text.count(mutant.text)} x {mutant.text}")
    return text.replace(mutant.text, mutant.becomes)


def first_failure(mutant: Mutant) -> tuple[str, float]:
    """Runs pytest on a copy with the mutant: the test that fails first, and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        clone = ["git", "clone", "-q", str(ROOT), folder]
        subprocess.run(clone, check=True)
        file = Path(folder) / "jaxproto" / mutant.file
        file.write_text(broken(file.read_text(), mutant))
        start = time.monotonic()
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2"]
        done = subprocess.run(
            [*command, "--dist", "loadfile", "--maxfail=1", "-p", "no:cacheprovider"],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": folder},
            capture_output=True,
            text=True,
        )
        seconds = time.monotonic() - start
    if done.returncode == 0:
        return "SURVIVED", seconds
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.M)
    return found[1] if found else done.stdout[-300:], seconds


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=10)
    args = parser.parse_args()
    for mutant in random.Random(args.seed).sample(MUTANTS, args.count):
        test, seconds = first_failure(mutant)
        row = f"| {mutant.name} | `{mutant.file}` | `{test}` | {seconds:.0f} |\n"
        sys.stdout.write(row)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
