"""Claimed and audited epsilon of one round, for every private method.

    python -m results.privacy.audit OUT

Adds the missing rows to audit.csv; OUT receives the runs.
"""

import csv
import itertools
import sys
from pathlib import Path

from rich.console import Console

import jaxproto
from jaxproto import config
from jaxproto.attacks import privacy_audit
from jaxproto.features.privacy.guarantee import private_methods
from jaxproto.wrappers.privacy import CLIENT, EXAMPLE

HERE = Path(__file__).parent
NOISES = (1.0, 2.0, 4.0)
COMMAND = (
    "python main.py --config=configs/{method}.py:spiral --config.rounds=1 "
    "--config.local.batch_size=1000 --config.privacy.unit={unit} "
    "--config.privacy.noise={noise} --workdir=RUN; "
    "python -m jaxproto audit RUN --trials={trials}"
)
REQUEST = privacy_audit.AuditRequest(trials=20_000)


def configured(method: str, unit: str, noise: float):
    """Configures ten clients of the spiral, one round of one step on all examples."""
    c = config.experiment(method, "spiral")
    c.rounds, c.local.batch_size = 1, 1000
    c.privacy.unit, c.privacy.noise = unit, noise
    return c


def main(out: str):
    """Runs and audits the settings that have no row yet."""
    cases = itertools.product((EXAMPLE, CLIENT), private_methods(), NOISES)
    with (HERE / "audit.csv").open("a+", newline="") as file:
        file.seek(0)
        done = {(row[1], row[0], row[2]) for row in csv.reader(file)}
        table = csv.writer(file, lineterminator="\n")
        if not done:
            table.writerow((*privacy_audit.Audit._fields, "command"))
        for case in cases:
            unit, method, noise = case
            if (unit, method, str(noise)) in done:
                continue
            path = Path(out) / "_".join(map(str, case))
            jaxproto.run(configured(method, unit, noise), path, Console(quiet=True))
            audit = privacy_audit.audit(path, REQUEST)
            command = COMMAND.format(**audit._asdict(), trials=REQUEST.trials)
            table.writerow((*audit, command))
            file.flush()


if __name__ == "__main__":
    main(sys.argv[1])
