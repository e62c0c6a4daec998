"""Breaks one line of the package at a time and says which test notices.

    python -m tests.support.mutants --seed=0 --count=10 --out=mutants.md

Mutants are drawn from MUTANTS without replacement. Each is made in a copy of the last
commit, in which pytest runs as in the README but ends at the first failure. `--names`
takes some of them in place of drawing.
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
    """One line of the package, and what it becomes."""

    name: str
    file: str  # in jaxproto/
    line: str  # stands there once, apart from its indentation
    becomes: str


MUTANTS = (
    Mutant(
        "alignment step moves along the gradient instead of against it",
        "kernels.py",
        "move_CD, opt_state = opt.update(-force_CD, s.opt, s.point)",
        "move_CD, opt_state = opt.update(force_CD, s.opt, s.point)",
    ),
    Mutant(
        "momentum of the alignment",
        "kernels.py",
        "optax.scale_by_learning_rate(alignment_rate), optax.trace(decay=0.9)",
        "optax.scale_by_learning_rate(alignment_rate), optax.trace(decay=0.8)",
    ),
    Mutant(
        "decay of the alignment's rate",
        "kernels.py",
        "return 0.1 * 0.95 ** jnp.ceil(step / 10)",
        "return 0.1 * 0.95 ** jnp.floor(step / 10)",
    ),
    Mutant(
        "mean of prototypes counts clients without the class",
        "kernels.py",
        "has_KC = (up.count > 0).astype(up.mean.dtype)",
        "has_KC = (up.count >= 0).astype(up.mean.dtype)",
    ),
    Mutant(
        "mask overlap: exchanges that raise it are made",
        "masks.py",
        "if fall < 0:",
        "if fall > 0:",
    ),
    Mutant(
        "upscale on the client",
        "methods/fedproto.py",
        "on_client = chain(on_client, scale(upscale))",
        "on_client = chain(on_client, scale(1.0))",
    ),
    Mutant(
        "sum or mean of APS",
        "methods/tinyproto.py",
        "return up.replace(mean=up.mean * (mu * holders_C)[:, None])",
        "return up.replace(mean=up.mean * mu)",
    ),
    Mutant(
        "CPKD weight of the pull",
        "losses.py",
        "seen_B = seen_B * emphasis_C[y_B]",
        "seen_B = seen_B * jnp.ones_like(emphasis_C)[y_B]",
    ),
    Mutant(
        "FedTGP margin: the larger of gap and tau",
        "methods/fedtgp.py",
        "return jnp.minimum(kernels.largest_gap(kernels.mean_over_clients(up)), tau)",
        "return jnp.maximum(kernels.largest_gap(kernels.mean_over_clients(up)), tau)",
    ),
    Mutant(
        "FedTGP: rows that nobody sent are trained on",
        "methods/fedtgp.py",
        "mask_B = (at_B < num).astype(data.proto.dtype)  # the last batch may be short",
        "mask_B = jnp.ones_like(at_B, data.proto.dtype)",
    ),
    Mutant(
        "participation mask: who sits out trains",
        "federation.py",
        "shards = shards.replace(size=jnp.where(here.trains, shards.size, 0))",
        "shards = shards.replace(size=jnp.where(True, shards.size, 0))",
    ),
    Mutant(
        "lost uploads arrive",
        "federation.py",
        "return jax.tree.map(lambda a: jnp.where(reports, a, jnp.zeros_like(a)), up)",
        "return up",
    ),
    Mutant(
        "dropouts stop training too",
        "participation.py",
        "return participants._replace(reports=participants.reports & arrives_K)",
        "return Participation(*[p & arrives_K for p in participants])",
    ),
    Mutant(
        "wire rounding: down instead of to the nearest",
        "wire/message.py",
        "whole = jnp.clip(jnp.round(x / _rows(scale, x)), -127, 127)",
        "whole = jnp.clip(jnp.floor(x / _rows(scale, x)), -127, 127)",
    ),
    Mutant(
        "wire format of the broadcast",
        "federation.py",
        "packed = lax.optimization_barrier(wire.pack(message, formats.down))",
        "packed = lax.optimization_barrier(wire.pack(message, 'float32'))",
    ),
    Mutant(
        "resume of the optimiser state",
        "client.py",
        "after = before.replace(params=params, norm=norm, opt=opt)",
        "after = before.replace(params=params, norm=norm)",
    ),
    Mutant(
        "the last record outlives its checkpoint",
        "training/keeping.py",
        "records.keep_until(run.path / METRICS, start)",
        "records.keep_until(run.path / METRICS, start + 1)",
    ),
    Mutant(
        "learning rate is scaled before the optimiser",
        "client.py",
        "updates = optax.tree.scale(task.local.factor, updates)",
        "updates = optax.tree.scale(1.0, updates)",
    ),
    Mutant(
        "a class absent on one side pulls",
        "losses.py",
        "both_C = (own.count > 0) & (target.count > 0)",
        "both_C = own.count > 0",
    ),
    Mutant(
        "RefProtoFL sends the smallest changes",
        "methods/refprotofl.py",
        "sent_P = largest(jnp.abs(value_P - old_P), count)  # Eq. 3",
        "sent_P = largest(-jnp.abs(value_P - old_P), count)",
    ),
    Mutant(
        "RefProtoFL: external anchors lose to the clients' own",
        "methods/refprotofl.py",
        "mean_Cm = jnp.where(public.count[:, None] > 0, public.mean, own.mean)",
        "mean_Cm = jnp.where(own.count[:, None] > 0, own.mean, public.mean)",
    ),
    Mutant(
        "a class that nobody sent is forgotten",
        "transforms.py",
        "mean_CD = jnp.where(here_C[:, None], p.mean, kept.mean)",
        "mean_CD = jnp.where(here_C[:, None], p.mean, 0 * kept.mean)",
    ),
    Mutant(
        "short clients: repeats count in the loss",
        "batches.py",
        "mask_B = (at_B < data.shard.size).astype(jnp.float32)\n"
        "    return take(data, order_M[at_B % real], mask_B, key)",
        "mask_B = jnp.ones(size)\n"
        "    return take(data, order_M[at_B % real], mask_B, key)",
    ),
    Mutant(
        "clients' random streams do not depend on their ids",
        "client.py",
        "return jax.random.fold_in(task.key, client.id)",
        "return jax.random.fold_in(task.key, 0 * client.id)",
    ),
)


def broken(text: str, mutant: Mutant) -> str:
    """Returns a file's text with the mutant in it.

    Raises:
      ValueError: the line is not there, or more than once.
    """
    if text.count(mutant.line) != 1:
        raise ValueError(f"{mutant.file}: {text.count(mutant.line)} x {mutant.line}")
    return text.replace(mutant.line, mutant.becomes)


def first_failure(mutant: Mutant, base: Path) -> tuple[str, float]:
    """Runs pytest on a copy with the mutant: the test that fails first, and seconds."""
    with tempfile.TemporaryDirectory(dir=base) as folder:
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
    parser.add_argument("--names", nargs="*", help="parts of names, not drawn")
    parser.add_argument("--out", type=Path, help="Markdown table, row by row")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    args = parser.parse_args()
    drawn = random.Random(args.seed).sample(MUTANTS, args.count)
    if args.names:
        drawn = [m for m in MUTANTS if any(name in m.name for name in args.names)]
    for mutant in drawn:
        test, seconds = first_failure(mutant, args.folder)
        row = f"| {mutant.name} | `{mutant.file}` | `{test}` | {seconds:.0f} |\n"
        sys.stdout.write(row)
        sys.stdout.flush()
        if args.out:
            with args.out.open("a") as f:
                f.write(row)


if __name__ == "__main__":
    main()
