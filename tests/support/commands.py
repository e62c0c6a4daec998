"""Commands of `jaxproto` in this process."""

import contextlib

import pytest
from absl import flags

from jaxproto import cli


@contextlib.contextmanager
def ending():
    """A block that ends the program; the flags that it defines go with it."""
    before = {*flags.FLAGS}
    try:
        with pytest.raises(SystemExit) as end:
            yield end
    finally:
        for name in {*flags.FLAGS} - before:
            delattr(flags.FLAGS, name)


def called(*arguments):
    """Returns the exit code of `jaxproto`, which is a text after an error."""
    with ending() as end:
        cli.main(arguments)
    return end.value.code
