"""Accuracy on the digits over three seeds, beside FedProto and local training.

    python -m results.every_method.digits OUT ROUNDS METHOD[:GROUP]...

Prints a row for each method and prediction rule: the accuracy after the last round, as
mean and standard deviation over seeds, pooled and as the mean over clients.
"""

import statistics
import sys
from pathlib import Path

import jaxproto
from jaxproto import config

SEEDS = [0, 1, 2]


def rows(out: Path, rounds: int, cell: str) -> list[str]:
    """Trains a method with every seed; returns the rows of the table."""
    name, _, group = cell.partition(":")
    c = config.load(f"configs/{name}.py:digits")
    c.model.group = group or c.model.group
    c.rounds = c.eval_every = rounds
    done = jaxproto.sweep(c, {"seed": SEEDS}, out / cell.replace(":", "-"))
    summaries = list(done.summaries.values())
    lines = []
    for rule, averages in summaries[0]["rules"].items():
        texts = []
        for average in averages:
            found = [100 * s["rules"][rule][average]["final"] for s in summaries]
            mean, spread = statistics.fmean(found), statistics.stdev(found)
            texts.append(f"{average} {mean:.1f} ± {spread:.1f}")
        lines.append(f"| {name} | {c.model.group} | {rule} | {' | '.join(texts)} |")
    return lines


if __name__ == "__main__":
    folder, number, *cells = sys.argv[1:]
    for method in cells:
        sys.stdout.write("\n".join(rows(Path(folder), int(number), method)) + "\n")
        sys.stdout.flush()
