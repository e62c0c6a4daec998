"""Factories take few arguments; fields of a value come together."""

import inspect

from support.every import every

from jaxproto.config import registries
from jaxproto.config.factory_fields import all_fields
from jaxproto.methods import METHODS
from jaxproto.methods.fedproto import Pull, fedproto
from jaxproto.methods.fedtgp import ServerTraining, fedtgp
from jaxproto.methods.refprotofl import refprotofl


@every(METHODS)
def test_a_factory_takes_few_arguments_and_no_field_twice(name):
    parameters = inspect.signature(METHODS[name]).parameters
    assert len({*parameters} - {"privacy"}) <= 10  # which is no field of a method
    grouped = registries.GROUPED_ARGUMENTS
    defaults = {key: p.default for key, p in parameters.items()}
    together = {k: v for k, v in defaults.items() if isinstance(v, grouped)}
    fields = [field for value in together.values() for field in value._fields]
    alone = parameters.keys() - together
    assert len({*fields, *alone}) == len(fields) + len(alone)


def test_the_meaning_of_a_field_of_ones_own_is_that_of_the_docstring(monkeypatch):
    def mine(spec, *, lam: float = 1.0, share: float = 0.5, low=0, high=1):
        """A method.

        Args:
          spec: number of classes and feature dimension.
          share: of the old prototypes,
            in every round.
          low, high: both ends.
        """

    monkeypatch.setitem(METHODS, "mine", mine)
    told = all_fields("mine")
    assert told["method.share"].help == "of the old prototypes, in every round"
    assert told["method.low"].help == told["method.high"].help == "both ends"
    assert told["method.lam"].help == all_fields("fedproto")["method.lam"].help != ""
    mine.__doc__ = None
    assert all_fields("mine")["method.share"].help == ""


def test_fields_of_one_value_come_together_again_and_change_one_given_whole():
    """A plain argument of the same name stays: RefProtoFL's `pull` is a distance."""
    given = {"lam": 3.0, "server_batch": 4, "tau": 1.0}
    training = ServerTraining(server_batch=4)
    grouped = {"pull": Pull(lam=3.0), "training": training, "tau": 1.0}
    assert registries.group_arguments(fedtgp, given) == grouped
    assert given == {"lam": 3.0, "server_batch": 4, "tau": 1.0}
    whole = {"pull": Pull(lam=3.0, reg=None), "lam": 2.0}
    changed = {"pull": Pull(lam=2.0, reg=None)}
    assert registries.group_arguments(fedproto, whole) == changed
    assert registries.group_arguments(refprotofl, {"pull": max}) == {"pull": max}
