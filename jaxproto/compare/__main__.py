"""Finished runs side by side.

python -m jaxproto.compare WORKDIR... [--format markdown] [--statistic last10]
"""

import sys
from collections.abc import Sequence

from jaxproto import cli, compare
from jaxproto.compare import rendering, tables
from jaxproto.errors import UserError


def main(argv: Sequence[str]) -> str:
    """The text that the arguments ask for.

    Raises:
      UserError: an argument or a work directory cannot be used.
    """
    about = __doc__.split("\n")[0]
    parser = cli.Parser(prog="python -m jaxproto.compare", description=about)
    parser.add_argument("workdirs", nargs="+", metavar="WORKDIR")
    formats = [*rendering.FORMATS, rendering.CSV]
    parser.add_argument("--format", choices=formats, default="text")
    rounds, clients = [*tables.STATISTICS], [*tables.AVERAGES]
    parser.add_argument(
        "--statistic",
        choices=rounds,
        action="append",
        default=[],
        help="of the rounds, a column each; best and final unless given",
    )
    parser.add_argument("--average", choices=clients, default="pooled")
    parser.add_argument("--rule", action="append", default=[], help="only this one")
    parser.add_argument("--out", type=cli.new_file, help="write there")
    args = parser.parse_args(argv)
    made = compare.table(
        compare.groups(map(compare.load, args.workdirs)),
        statistics=args.statistic or ("best", "final"),
        average=args.average,
        rules=args.rule,
    )
    text = compare.render(made, args.format)
    if args.out is None:
        return text
    try:
        args.out.write_text(text)
    except OSError as e:
        raise UserError(f"cannot write {args.out}: {e.strerror}.") from e
    return f"written to {args.out}\n"


if __name__ == "__main__":
    try:
        sys.stdout.write(main(sys.argv[1:]))
    except UserError as e:
        sys.exit(f"error: {e}")
