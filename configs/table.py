"""One cell of a published table, with the setting and hyper-parameters of its paper.

    python configs/table.py                     # all tables
    python configs/table.py protonorm1          # its cells: command, printed number
    python main.py --config=configs/table.py:tinyproto1,cifar100-fedtgp

Then `python -m jaxproto.compare WORKDIR...` shows the printed number beside ours.
The full settings take hours to days on a CPU. Left out are averages over data sets
(RefProtoFL, Table 2) and FedProto and FedTGP with scaled prototypes (ProtoNorm, Table
5).
"""

import sys

from jaxproto.compare import names
from jaxproto.errors import UserError, pick


def get_config(arg: str = "protonorm1,cifar10-protonorm-dirichlet-alpha0.1"):
    """The configuration of a cell; `arg` is its table and its name, with a comma."""
    table, _, cell = arg.partition(",")
    return names.configuration(table, cell)


def listing(table: str) -> str:
    """One line per cell: its command, and what the paper prints."""
    command = f"python main.py --config=configs/table.py:{table},"
    lines = [
        f"{command}{name}  # {row.mean or 'diverged'}{row.std and ' ± ' + row.std}"
        for name, row in names.rows(pick("table", table, names.TABLES)).items()
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        lines = [listing(t) for t in sys.argv[1:]] or sorted(names.TABLES)
        sys.stdout.write("\n".join(lines) + "\n")
    except UserError as e:
        sys.exit(f"error: {e}")
