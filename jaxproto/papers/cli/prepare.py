"""Prepares a data set for tfds:NAME, or one of natural clients for npz:PATH."""

import logging
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from jaxproto.cli.argparse_types import Parser
from jaxproto.errors import UserError
from jaxproto.lab.data import natural
from jaxproto.papers.data import prepare
from jaxproto.summary.progress_lines import make_console, say
from jaxproto.training import signals


def main(prog: str, arguments: Sequence[str]):
    """Prepares one data set; an interrupted preparation starts from the beginning."""
    parser = Parser(prog=prog, description=__doc__)
    names = ", ".join([*prepare.SPACE, *natural.SETS])
    add = parser.add_argument
    add("name", nargs="*", help=f"such as {names}")
    add("--data_dir", help="default TFDS_DATA_DIR, ~/tensorflow_datasets")
    add("--manual_dir", help="folder of archives downloaded before")
    about = "size of the images in the array that runs map; default: their own"
    add("--pixels", type=int, default=0, help=about)
    about = "sources with fewer examples are left out (natural clients)"
    add("--min_examples", type=int, default=10, help=about)
    args = parser.parse_args(arguments)
    if len(args.name) != 1:
        raise UserError(
            f"give one data set, such as {names}: "
            f"{prog} NAME [--data_dir=...] [--manual_dir=...]"
        )
    show = partial(say, make_console())
    if args.name[0] in natural.SETS:
        for line in _prepare_natural(args):
            show(line)
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow logs a lot
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # its threads outlive an error
    prepare.set_progress_bars(sys.stderr.isatty())
    signals.remove_signal_handlers()  # TFDS removes unfinished files
    try:
        folders = {"data_dir": args.data_dir, "manual_dir": args.manual_dir}
        options = {**folders, "pixels": args.pixels}
        prepared = prepare.prepare(args.name[0], **options, show=show)
    except KeyboardInterrupt as e:
        hint = "nothing is half prepared; the same command starts again"
        raise KeyboardInterrupt(hint) from e
    for line in prepare.prepared_message(prepared, default=not args.data_dir):
        show(line)


def _prepare_natural(args) -> list[str]:
    """Writes the npz file of a data set of people, writers or roles."""
    name, folder = args.name[0], args.manual_dir
    if not folder:
        raise UserError(
            f"{name} is made of an archive on this machine: give the folder of "
            f"{natural.SETS[name].archive} as --manual_dir. {natural.SETS[name].source}"
        )
    paths = (folder, args.data_dir or ".")
    archives, out = (Path(path).expanduser().absolute() for path in paths)
    return natural.prepare(name, archives, out, args.min_examples)
