"""A picture of finished runs, as in the papers."""

from collections.abc import Sequence

from jaxproto.cli.arguments import Parser, new_file
from jaxproto.errors import UserError
from jaxproto.figures import registry


def main(prog: str, arguments: Sequence[str]):
    """Draws what the arguments say.

    Raises:
      UserError: an argument, a work directory or the file to write cannot be used.
    """
    parser = Parser(prog=prog, description=__doc__)
    kinds = parser.add_subparsers(dest="picture", required=True)
    for name, picture in registry.PICTURES.items():
        one = kinds.add_parser(name, help=picture.help)
        one.add_argument("out", type=new_file, metavar="OUT.png")
        registry.add_arguments(one, picture)
    args = parser.parse_args(arguments)
    if args.out.suffix.lower() != ".png":
        raise UserError(f"{args.out} does not end in .png: give a PNG file to write.")
    if not args.out.parent.is_dir():
        raise UserError(f"cannot write {args.out}: its folder does not exist.")
    try:
        registry.PICTURES[args.picture].draw(args)
    except OSError as e:
        raise UserError(
            f"cannot write {args.out}: {e.strerror}. Choose another file."
        ) from e
