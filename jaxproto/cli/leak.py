"""Attacks the uploads of finished runs; prints a table and draws plots."""

import sys
from collections.abc import Sequence
from pathlib import Path

from jaxproto import plots
from jaxproto.cli import table_output
from jaxproto.cli.argparse_types import Parser
from jaxproto.contrib import leakage
from jaxproto.contrib.leakage import attacks, figures
from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.summary import table_formats

TABLES = {"markdown": "md", "json": "json"}  # format and suffix of written tables


def main(prog: str, arguments: Sequence[str]):
    """Attacks the runs that the arguments name.

    Raises:
      UserError: an argument, a run or the output folder cannot be used.
    """
    args = _parser(prog).parse_args(arguments)
    request = leakage.AttackRequest(
        workdirs=args.workdirs,
        clients=_numbers("clients", args.clients, int),
        formats=[form for form in args.formats.split(",") if form],
        noises=_numbers("noise", args.noise, float),
        body=args.body,
        sizes=_sizes(args.sizes),
        seed=args.seed,
        data_dir=args.data_dir,
    )
    table = leakage.run_attack(
        args.attack, request, lambda what: sys.stderr.write(f"{what}\n")
    )
    table_output.print_table(table.view, "text")
    if args.out is not None:
        for path in _write(args.attack, table, args.out):
            sys.stderr.write(f"written: {path}\n")


def _parser(prog: str) -> Parser:
    parser = Parser(prog=prog, description=__doc__)
    attack_help = "; ".join(f"{k}: {v.about}" for k, v in leakage.ATTACKS.items())
    parser.add_argument("attack", choices=list(leakage.ATTACKS), help=attack_help)
    parser.add_argument("workdirs", nargs="+", metavar="WORKDIR", help="of runs")
    parser.add_argument(
        "--out", type=Path, metavar="FOLDER", help="for table and pictures"
    )
    clients_help = f"ids, 0,3,...; the first {attacks.CLIENTS} by default"
    parser.add_argument("--clients", default="", help=clients_help)
    parser.add_argument(
        "--formats", default="", help="on the wire, float32,int8,...; default the run's"
    )
    parser.add_argument(
        "--noise",
        default="0",
        help="standard deviations of Gaussian noise on what is sent, in units of its "
        "root mean square, 0,0.1,...",
    )
    parser.add_argument(
        "--body", choices=attacks.BODIES, default="own", help="the attacker's network"
    )
    sizes = ",".join(f"{b}x{s}" for b, s in attacks.SIZES)
    sizes_help = f"of `updates`: examples of a step x steps, {sizes} by default"
    parser.add_argument("--sizes", default=sizes, help=sizes_help)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data_dir", default="", help="where the data set is now")
    return parser


def _numbers(name: str, text: str, kind):
    try:
        return [kind(part) for part in text.split(",") if part]
    except ValueError:
        raise UserError(f"{name} is {text!r}; give numbers joined by commas.") from None


def _sizes(text: str) -> list[tuple[int, int]]:
    parts = [part.split("x") for part in text.split(",")]
    if any(len(p) != 2 or not all(n.isdecimal() and int(n) for n in p) for p in parts):
        raise UserError(f"sizes is {text!r}; give examples x steps, as 1x1,8x1,2x4.")
    return [(int(batch), int(steps)) for batch, steps in parts]


def _write(name: str, table: leakage.AttackTable, out: Path) -> list[Path]:
    """Writes tables and plots into a folder; returns their paths."""
    with atomic.write_errors(out, 0):
        out.mkdir(parents=True, exist_ok=True)
    paths = []
    for form, suffix in TABLES.items():
        paths.append(out / f"{name}.{suffix}")
        atomic.write(paths[-1], table_formats.render(table.view, form).encode())
    if not plots.available():
        sys.stderr.write(f"no pictures: {plots.HINT}\n")
        return paths
    return paths + figures.draw_attack(name, table, out)
