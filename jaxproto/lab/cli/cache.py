"""Lists or clears the cache of decoded data sets."""

import shutil
import time
from collections.abc import Sequence

from jaxproto.cli.argparse_types import Parser
from jaxproto.lab.data import decoded_cache
from jaxproto.summary.progress_lines import make_console, say


def main(prog: str, arguments: Sequence[str]):
    """Lists the entries, or also removes them."""
    parser = Parser(prog=prog, description=__doc__)
    parser.add_argument("--clear", action="store_true", help="remove all of it")
    clear = parser.parse_args(arguments).clear
    console, root = make_console(), decoded_cache.folder()
    if root is None:
        console.print("The cache is off (JAXPROTO_CACHE=off).")
        return
    entries = decoded_cache.entries(root)
    for entry in entries:
        day = time.strftime("%Y-%m-%d", time.localtime(entry.used))
        size = f"{entry.size / 2**20:,.0f} MiB"
        say(console, f"{entry.name}: {size}, last used {day}")
    if clear:
        shutil.rmtree(root, ignore_errors=True)
    say(console, f"{len(entries)} {'removed from' if clear else 'in'} {root}")
