"""Lists or clears the cache of decoded data sets."""

import shutil
import time
from collections.abc import Sequence

from rich.console import Console

from jaxproto.cli.argparse_types import Parser
from jaxproto.data import decoded_cache


def main(prog: str, arguments: Sequence[str], console: Console | None = None):
    """Lists the entries, or also removes them.

    Raises:
      UserError: an argument cannot be used.
    """
    parser = Parser(prog=prog, description=__doc__)
    parser.add_argument("--clear", action="store_true", help="remove all of it")
    clear = parser.parse_args(arguments).clear
    console = console or Console()
    root = decoded_cache.folder()
    if root is None:
        console.print("The cache is off (JAXPROTO_CACHE=off).")
        return
    entries = decoded_cache.entries(root)
    for entry in entries:
        day = time.strftime("%Y-%m-%d", time.localtime(entry.used))
        line = f"{entry.name}: {entry.size / 2**20:,.0f} MiB, last used {day}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if clear:
        shutil.rmtree(root, ignore_errors=True)
    where = f"{'removed from' if clear else 'in'} {root}"
    console.print(f"{len(entries)} {where}", markup=False, soft_wrap=True)
