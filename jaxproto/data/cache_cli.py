"""What the cache of decoded data sets holds.

python -m jaxproto.data.cache_cli            # lists it
python -m jaxproto.data.cache_cli --clear    # removes all of it
"""

import shutil
import sys
import time

from rich.console import Console

from jaxproto.data import cache


def main(arguments: list[str], console: Console) -> int:
    """Lists the entries, or removes them; the exit code."""
    if arguments not in ([], ["--clear"]):
        console.print("python -m jaxproto.data.cache_cli [--clear]", markup=False)
        return 2
    root = cache.folder()
    if root is None:
        console.print("The cache is off (JAXPROTO_CACHE=off).")
        return 0
    there = cache.entries(root)
    for kept in there:
        day = time.strftime("%Y-%m-%d", time.localtime(kept.used))
        size = f"{kept.size / 2**20:,.0f} MiB"
        line = f"{kept.name}: {size}, last used {day}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if arguments:
        shutil.rmtree(root, ignore_errors=True)
    done = "removed from" if arguments else "in"
    console.print(f"{len(there)} {done} {root}", markup=False, soft_wrap=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Console()))
