"""What the cache of decoded data sets holds."""

import shutil
import time
from collections.abc import Sequence

from rich.console import Console

from jaxproto.cli import argparse_types as arguments_
from jaxproto.data import decoded_cache


def main(prog: str, arguments: Sequence[str], console: Console | None = None):
    """Lists the entries, or removes them.

    Raises:
      UserError: an argument cannot be used.
    """
    parser = arguments_.Parser(prog=prog, description=__doc__)
    parser.add_argument("--clear", action="store_true", help="remove all of it")
    clear = parser.parse_args(arguments).clear
    console = console or Console()
    root = decoded_cache.folder()
    if root is None:
        console.print("The cache is off (JAXPROTO_CACHE=off).")
        return
    there = decoded_cache.entries(root)
    for entry in there:
        day = time.strftime("%Y-%m-%d", time.localtime(entry.used))
        size = f"{entry.size / 2**20:,.0f} MiB"
        line = f"{entry.name}: {size}, last used {day}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if clear:
        shutil.rmtree(root, ignore_errors=True)
    done = "removed from" if clear else "in"
    console.print(f"{len(there)} {done} {root}", markup=False, soft_wrap=True)
