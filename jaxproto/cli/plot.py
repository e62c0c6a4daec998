"""Picture of finished runs, as in the papers."""

from collections.abc import Sequence

from jaxproto import plots
from jaxproto.cli.argparse_types import Parser, new_file
from jaxproto.errors import UserError
from jaxproto.reporting.figures import registry


def main(prog: str, arguments: Sequence[str]):
    """Draws the picture.

    Raises:
      UserError: an argument, a work directory or the file to write cannot be used.
    """
    parser = Parser(prog=prog, description=__doc__)
    kinds = parser.add_subparsers(dest="picture", required=True, metavar="PICTURE")
    for name, picture in registry.FIGURES.items():
        former = [old for old, new in registry.OLD_NAMES.items() if new == name]
        subparser = kinds.add_parser(name, help=picture.help, aliases=former)
        subparser.add_argument("out", type=new_file, metavar="OUT.png|.pdf|.svg")
        registry.add_arguments(subparser, picture)
        width = "width of a paper's column (3.25 in) or of its text (6.75 in)"
        subparser.add_argument(
            "--size", choices=list(plots.SIZES), default="", help=width
        )
        subparser.set_defaults(draw=picture.draw)
    args = parser.parse_args(arguments)
    plots.check(args.out)
    if not args.out.parent.is_dir():
        raise UserError(f"cannot write {args.out}: its folder does not exist.")
    try:
        with plots.paper_width(args.size):
            args.draw(args)
    except OSError as e:
        raise UserError(
            f"cannot write {args.out}: {e.strerror}. Choose another file."
        ) from e
