"""Factories take few arguments; fields of a value come together."""

import inspect

from support.every import check_every

from jaxproto import config
from jaxproto.config import registries
from jaxproto.config.factory_fields import all_fields
from jaxproto.methods import METHODS
from jaxproto.methods.fedproto import Pull, fedproto
from jaxproto.methods.fedtgp import ServerTraining, fedtgp
from jaxproto.methods.refprotofl import refprotofl


def test_fields_that_no_record_in_results_has_yet_keep_their_names():
    """Of the others tests/benchmarks/test_results.py knows."""
    averaging = ("fedavg", "fedprox", "fednova", "fednh", "fast")
    later = {name: ["statistics"] for name in averaging}
    later["vhl"] = ["stored", "statistics"]
    found = {
        name: [*config.method_fields(name)][-len(f) :] for name, f in later.items()
    }
    assert found == later


def test_a_factory_takes_few_arguments_and_no_field_twice():
    def check(name):
        parameters = inspect.signature(METHODS[name]).parameters
        own = {*parameters} - {"privacy"}  # no field of a method
        assert len(own) <= 10
        defaults = {p.name: p.default for p in parameters.values()}
        together = [
            k
            for k, v in defaults.items()
            if isinstance(v, registries.GROUPED_ARGUMENTS)
        ]
        fields = [key for k in together for key in defaults[k]._fields]
        alone = parameters.keys() - {*together}
        assert len({*fields, *alone}) == len(fields) + len(alone)

    check_every(METHODS, check)


def test_the_meaning_of_a_field_of_ones_own_is_that_of_the_docstring(monkeypatch):
    def mine(
        spec, *, lam: float = 1.0, share: float = 0.5, low: int = 0, high: int = 1
    ):
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
    assert registries.group_arguments(fedtgp, given) == {
        "pull": Pull(lam=3.0),
        "training": ServerTraining(server_batch=4),
        "tau": 1.0,
    }
    assert given == {"lam": 3.0, "server_batch": 4, "tau": 1.0}
    whole = {"pull": Pull(lam=3.0, reg=None), "lam": 2.0}
    assert registries.group_arguments(fedproto, whole) == {
        "pull": Pull(lam=2.0, reg=None)
    }
    assert registries.group_arguments(refprotofl, {"pull": max}) == {"pull": max}
