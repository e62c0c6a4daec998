"""Picture of finished runs, as in the papers."""

import sys
from collections.abc import Sequence

from jaxproto.cli.argparse_types import Parser, new_file
from jaxproto.errors import choose_from
from jaxproto.lab import plots
from jaxproto.lab.figures import registry
from jaxproto.lab.figures.draw import draw


def main(prog: str, arguments: Sequence[str]):
    """Draws the picture."""
    name, *rest = [*arguments] or [""]
    if name and not name.startswith("-"):
        arguments = [choose_from("picture", name, registry.FIGURES), *rest]
    args = _parser(prog).parse_args(arguments)
    draw(args)
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
