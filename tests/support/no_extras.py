"""Commands in a process that sees no package of an extra, as after a plain install.

python -m support.no_extras < commands.json     # prints code and messages of each
"""

import functools
import json
import re
import sys
import traceback
from contextlib import redirect_stderr, redirect_stdout
from importlib import metadata
from importlib.machinery import PathFinder
from io import StringIO

from packaging.requirements import Requirement

BASE = ("jaxproto", "pytest")  # with what they require; the harness needs the second


@functools.cache
def _canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def _required(names):
    """The distributions that these ones require, themselves included."""
    found, open_ = set(), [(name, "") for name in names]
    while open_:
        name, extra = pair = open_.pop()
        if pair in found:
            continue
        found.add(pair)
        try:
            lines = metadata.requires(name) or ()
        except metadata.PackageNotFoundError:  # of another platform
            continue
        for line in map(Requirement, lines):
            if line.marker is None or line.marker.evaluate({"extra": extra}):
                extras = ("", *line.extras)
                open_ += [(_canonical(line.name), each) for each in extras]
    return {name for name, _ in found}


def hide():
    """Hides all modules that no requirement of `BASE` installs."""
    kept, find = _required(BASE), PathFinder.find_spec
    hidden = {
        module
        for module, owners in metadata.packages_distributions().items()
        if not kept & set(map(_canonical, owners))
    }

    def find_spec(name, path=None, target=None):
        seen = name.partition(".")[0] not in hidden
        return find(name, path, target) if seen else None

    PathFinder.find_spec = find_spec


def call(arguments):
    """The code of a command, and what it writes."""
    from support.commands import called

    out = StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        try:
            code = called(*arguments)
        except Exception:
            code = traceback.format_exc()
    return code, out.getvalue()


if __name__ == "__main__":
    commands = json.load(sys.stdin)
    hide()
    from jaxproto.cli import config_command  # noqa: F401  absl's flags, which stay

    sys.stdout.write(json.dumps([call(arguments) for arguments in commands]))
