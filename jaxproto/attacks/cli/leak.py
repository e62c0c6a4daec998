"""Attack on the uploads of finished runs, with its table and pictures."""

import re
import sys
from collections.abc import Sequence
from pathlib import Path

from jaxproto.attacks import leakage
from jaxproto.attacks.leakage import attack_cases, figures
from jaxproto.cli import table_output
from jaxproto.cli.argparse_types import Parser
from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.lab import plots
from jaxproto.summary import table_formats

TABLES = {"markdown": "md", "json": "json"}  # format -> suffix of the written file


def main(prog: str, arguments: Sequence[str]):
    """Attacks the runs that the arguments name."""
    args = _parser(prog).parse_args(arguments)
    request = leakage.AttackRequest(
        workdirs=args.workdirs,
        clients=_parse_numbers("clients", args.clients, int),
        formats=[form for form in args.formats.split(",") if form],
        noises=_parse_numbers("noise", args.noise, float),
        body=args.body,
        broadcast=args.broadcast,
        shadows=args.shadows,
        sizes=_parse_sizes(args.sizes),
        seed=args.seed,
        data_dir=args.data_dir,
    )
    table = leakage.run_attack(
        args.attack, request, lambda progress: sys.stderr.write(f"{progress}\n")
    )
    table_output.print_table(table.view, "text")
    if args.out is not None:
        for path in _write(args.attack, table, args.out):
            sys.stderr.write(f"written: {path}\n")


def _parser(prog: str) -> Parser:
    parser = Parser(prog=prog, description=__doc__)
    add = parser.add_argument
    listed = "; ".join(f"{k}: {v.about}" for k, v in leakage.ATTACKS.items())
    add("attack", choices=list(leakage.ATTACKS), help=listed)
    add("workdirs", nargs="+", metavar="WORKDIR", help="of runs")
    add("--out", type=Path, metavar="FOLDER", help="for table and pictures")
    about = f"ids, 0,3,...; the first {attack_cases.CLIENTS} by default"
    add("--clients", default="", help=about)
    about = "float32,int8,... on the wire; default the run's"
    add("--formats", default="", help=about)
    about = (
        "standard deviations of Gaussian noise on uploads, in units of their root mean "
        "square: 0,0.1,..."
    )
    add("--noise", default="0", help=about)
    about = "the attacker's network"
    add("--body", choices=attack_cases.BODIES, default="own", help=about)
    about = "crafted: of a server that sends weights or prototypes made to leak"
    add("--broadcast", choices=attack_cases.BROADCASTS, default="honest", help=about)
    sizes = ",".join(map(_size_name, attack_cases.SIZES))
    about = f"for `updates`: examples per step x steps, or round; default {sizes}"
    add("--sizes", default=sizes, help=about)
    about = f"for `lira`: number of federations, default {attack_cases.SHADOWS}"
    add("--shadows", type=int, default=attack_cases.SHADOWS, help=about)
    add("--seed", type=int, default=0)
    add("--data_dir", default="", help="folder of a moved data set")
    return parser


def _parse_numbers(name: str, text: str, kind):
    """Parses numbers of type `kind`, such as int, joined by commas."""
    try:
        return [kind(part) for part in text.split(",") if part]
    except ValueError:
        raise UserError(f"{name} is {text!r}; give numbers joined by commas.") from None


def _parse_sizes(text: str) -> list[tuple[int, int]]:
    """Parses sizes such as 8x1,round."""
    sizes = []
    for part in text.split(","):
        match = re.fullmatch(r"([1-9][0-9]*)x([1-9][0-9]*)", part)
        if match is None and part != "round":
            raise UserError(
                f"sizes is {text!r}; give examples x steps or round, as 1x1,2x4,round."
            )
        sizes.append((int(match[1]), int(match[2])) if match else attack_cases.ROUND)
    return sizes


def _size_name(size: tuple[int, int]) -> str:
    return "round" if size == attack_cases.ROUND else "{}x{}".format(*size)


def _write(name: str, table: leakage.AttackTable, out: Path) -> list[Path]:
    """Writes tables and pictures into a folder, and returns their paths."""
    with atomic.write_errors(out, 0):
        out.mkdir(parents=True, exist_ok=True)
    written = []
    for form, suffix in TABLES.items():
        written.append(out / f"{name}.{suffix}")
        atomic.write(written[-1], table_formats.render(table.view, form).encode())
    if not plots.available():
        sys.stderr.write(f"no pictures: {plots.HINT}\n")
        return written
    return written + figures.draw_attack(name, table, out)
