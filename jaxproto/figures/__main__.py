"""Pictures of finished runs, as in the papers.

python -m jaxproto.figures accuracy_against_bytes OUT.png WORKDIR... [--rule local]
"""

import sys
from collections.abc import Sequence

from jaxproto import cli
from jaxproto.errors import UserError
from jaxproto.figures import registry


def main(argv: Sequence[str]):
    """Draws what the arguments say.

    Raises:
      UserError: an argument, a work directory or the file to write cannot be used.
    """
    about = __doc__.split("\n")[0]
    parser = cli.Parser(prog="python -m jaxproto.figures", description=about)
    kinds = parser.add_subparsers(dest="picture", required=True)
    for name, picture in registry.PICTURES.items():
        one = kinds.add_parser(name, help=picture.help)
        one.add_argument("out", type=cli.new_file, metavar="OUT.png")
        registry.add_arguments(one, picture)
    args = parser.parse_args(argv)
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


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as e:
        sys.exit(f"error: {e}")
