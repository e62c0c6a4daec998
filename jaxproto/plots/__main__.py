"""Pictures of several runs.

python -m jaxproto.plots accuracy_against_bytes OUT.png WORKDIR... [--rule local]
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from jaxproto import command, metrics, plots
from jaxproto.errors import UserError


def main(argv: Sequence[str]):
    """Draws what the arguments say.

    Raises:
      UserError: an argument, a work directory or the file to write cannot be used.
    """
    parser = command.Parser(
        prog="python -m jaxproto.plots", description=__doc__.split("\n")[0]
    )
    kinds = parser.add_subparsers(dest="picture", required=True)
    one = kinds.add_parser("accuracy_against_bytes", help="of every rule and run")
    one.add_argument("out", type=command.new_file, metavar="OUT.png")
    one.add_argument("workdirs", type=Path, nargs="+", metavar="WORKDIR")
    one.add_argument("--rule", help="draw this one only")
    args = parser.parse_args(argv)
    if args.out.suffix.lower() != ".png":
        raise UserError(f"{args.out} does not end in .png: give a PNG file to write.")
    runs = {name: records(path) for name, path in named(args.workdirs).items()}
    try:
        plots.accuracy_against_bytes(args.out, runs, args.rule)
    except OSError as e:
        raise UserError(
            f"cannot write {args.out}: {e.strerror}. Choose another file."
        ) from e


def named(workdirs: Sequence[Path]) -> dict[str, Path]:
    """Work directories by the names of their folders, by their paths if those repeat.

    Raises:
      UserError: one is given twice.
    """
    short = [path.resolve().name for path in workdirs]
    names = short if len(set(short)) == len(short) else [str(p) for p in workdirs]
    for i, path in enumerate(workdirs):
        if path.resolve() in [p.resolve() for p in workdirs[:i]]:
            raise UserError(f"{path} is given twice; give each work directory once.")
    return dict(zip(names, workdirs, strict=True))


def records(workdir: Path) -> list[dict]:
    """The records of a run.

    Raises:
      UserError: there are none in the folder.
    """
    if not (workdir / "metrics.jsonl").is_file():
        raise UserError(
            f"{workdir} holds no metrics.jsonl: give work directories of runs, such as "
            "runs/protonorm-digits-seed0."
        )
    return metrics.read(workdir / "metrics.jsonl")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as e:
        sys.exit(f"error: {e}")
