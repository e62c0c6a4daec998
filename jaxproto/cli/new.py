"""Starting files of a method of your own: method, configuration and test."""

import keyword
import os
import re
import sys
from collections.abc import Sequence

from jaxproto.cli.argparse_types import Parser
from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.methods import METHODS

METHOD = '''"""NAME: FedProto whose server keeps a share of the old prototypes.

    jaxproto run --import=NAME.py --config=NAME.py
"""

import dataclasses

import jax.numpy as jnp

import jaxproto
from jaxproto import config
from jaxproto.methods.fedproto import Pull, fedproto


@jaxproto.register.method("NAME")
def NAME(spec, *, lam: float = 10.0, share: float = 0.5):
    """Returns the method; its keyword arguments are fields `method.lam`, ...

    Args:
      lam: weight of the pull towards prototypes.
      share: share of the old prototypes that an update keeps.
    """
    method = fedproto(spec, pull=Pull(lam=lam))

    def update(net, server, up, key):
        new = method.update(net, server, up, key)
        old, both = server.protos, new.protos.count * server.protos.count > 0
        mixed = share * old.mean + (1 - share) * new.protos.mean
        mean = jnp.where(both[:, None], mixed, new.protos.mean)
        return new._replace(protos=new.protos.replace(mean=mean))

    return dataclasses.replace(method, update=update)


def get_config(arg: str = "digits"):
    """Returns the configuration; `arg` names a data set preset and variants."""
    return config.experiment("NAME", arg, like="fedproto")  # its lam
'''
TEST = '''"""Tests of NAME."""

import jaxproto
from jaxproto import config

import NAME


def experiment(**fields):
    c = NAME.get_config()
    c.model.group, c.data.clients, c.rounds = "mlp", 4, 2
    c.update_from_flattened_dict(fields)
    return c


def test_it_fits_the_interface():
    jaxproto.check(experiment())


def test_without_a_share_it_is_fedproto(tmp_path):
    mine = experiment(**{"method.share": 0.0})
    base = config.load("fedproto:digits")
    base.model.group, base.data.clients, base.rounds = "mlp", 4, 2
    accuracies = [
        jaxproto.run(c, tmp_path / name)["rules"]["head"]["pooled"]["final"]
        for name, c in (("mine", mine), ("base", base))
    ]
    assert accuracies[0] == accuracies[1]
'''
NEXT = """written: {method} and {test}
run it:   python -m jaxproto run --import={method} --config={method}
test it:  python -m pytest {test}  (needs: python -m pip install pytest)
"""


def main(prog: str, arguments: Sequence[str]):
    """Writes the two files into the current folder."""
    parser = Parser(prog=prog, description=__doc__)
    parser.add_argument("name", help="of the method, such as mine")
    name = parser.parse_args(arguments).name
    files = {f"{name}.py": METHOD, f"test_{name}.py": TEST}
    taken = {*sys.stdlib_module_names, *sys.modules, *re.findall(r"\w+", METHOD)}
    reasons = {
        "is no name in Python": not name.isidentifier() or keyword.iskeyword(name),
        "is a method already": name in METHODS,
        "has files here that exist already": any(map(os.path.exists, files)),
        "is the name of a module, or of a variable in the file": name in taken,
    }
    for why in (why for why, true in reasons.items() if true):
        raise UserError(f"{name!r} {why}; choose another, such as my_method.")
    for file, text in files.items():
        atomic.write(file, text.replace("NAME", name).encode())
    method, test = files
    sys.stdout.write(NEXT.format(method=method, test=test))
