"""Picture of finished runs, as in the papers."""

import sys
from collections.abc import Sequence

from jaxproto.cli.argparse_types import Parser, new_file
from jaxproto.errors import UserError, choose_from, first_few
from jaxproto.lab import leave_out, plots
from jaxproto.lab.figures import registry


def main(prog: str, arguments: Sequence[str]):
    """Draws the picture."""
    name, *rest = [*arguments] or [""]
    if name and not name.startswith("-"):
        arguments = [choose_from("picture", name, registry.FIGURES), *rest]
    args = _parser(prog).parse_args(arguments)
    plots.check(args.out)
    if not args.out.parent.is_dir():
        raise UserError(f"cannot write {args.out}: its folder does not exist.")
    if args.figure.runs != "none":
        args.workdirs = leave_out.find_runs(args.workdirs)
    if args.figure.runs == "one" and len(args.workdirs) > 1:
        runs = first_few(args.workdirs)
        raise UserError(f"{args.picture} is a picture of one run: name one of {runs}.")
    try:
        with plots.paper_width(args.size):
            args.figure.draw(args)
    except OSError as e:
        raise UserError(
            f"cannot write {args.out}: {e.strerror}. Choose another file."
        ) from e
    sys.stdout.write(f"written to {args.out}\n")


def _parser(prog: str) -> Parser:
    parser = Parser(prog=prog, description=__doc__)
    pictures = parser.add_subparsers(dest="picture", required=True, metavar="PICTURE")
    width = "width of a paper's column (3.25 in) or of its text (6.75 in)"
    for name, picture in registry.FIGURES.items():
        subparser = pictures.add_parser(name, help=picture.help)
        formats = "png, pdf or svg; default %(default)s"
        default = f"{name}.png"
        subparser.add_argument("--out", type=new_file, default=default, help=formats)
        registry.add_arguments(subparser, picture)
        subparser.add_argument("--size", choices=[*plots.SIZES], default="", help=width)
        subparser.set_defaults(figure=picture)
    return parser
