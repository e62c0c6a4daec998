"""Factories take few arguments; configurations keep every field they had."""

import inspect

import pytest

from jaxproto import config
from jaxproto.config import registries
from jaxproto.config.meanings import meaning
from jaxproto.methods import METHODS
from jaxproto.methods.fedproto import Pull, fedproto
from jaxproto.methods.fedtgp import ServerTraining, fedtgp
from jaxproto.methods.refprotofl import refprotofl

FIELDS = {  # as saved configurations have them, after the name
    "local": "",
    "fedproto": "lam reg collect aggregate upscale on_server",
    "protonorm": "lam alignment upscale reg collect aggregate on_server",
    "refprotofl": "lam budget adapter_dim pull anchors",
    "fedtgp": (
        "lam reg collect tau server_epochs server_rate server_batch upscale on_server"
    ),
    "tinyproto": (
        "base s masks mask_seed scaling mu num_examples lam reg collect tau "
        "server_epochs server_rate server_batch compare"
    ),
    "cps_ppa_cpkd": (
        "base s masks mask_seed scaling num_examples distill lam reg collect "
        "tau server_epochs server_rate server_batch compare"
    ),
    "fedavg": "statistics",
    "fedprox": "mu statistics",
    "fednova": "mu server_momentum statistics",
    "fednh": "rho scale server_rate statistics",
    "feduv": "variance uniformity statistics",
    "vhl": (
        "virtual align contrast virtual_classes images virtual_seed stored statistics"
    ),
    "fast": "q fraction pace gamma statistics",
    "lg_fedavg": "",
    "fml": "aux alpha beta clip target",
    "fedkd": "aux energy_start energy_end clip target",
    "feddistill": "lam distance",
    "fedgh": "server_rate server_epochs server_batch",
}


@pytest.mark.parametrize("name", FIELDS)
def test_a_configuration_has_the_fields_that_it_had_in_their_order(name):
    assert list(config.method_fields(name)) == ["name", *FIELDS[name].split()]


@pytest.mark.parametrize("name", METHODS)
def test_a_factory_takes_few_arguments_and_no_field_twice(name):
    parameters = inspect.signature(METHODS[name]).parameters
    own = {*parameters} - {"privacy"}  # no field of a method
    assert len(own) <= 10
    together = [
        p for p in parameters.values() if isinstance(p.default, registries.VALUES)
    ]
    fields = [key for p in together for key in p.default._fields]
    alone = parameters.keys() - {p.name for p in together}
    assert len({*fields, *alone}) == len(fields) + len(alone)


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
    told = {k: meaning(f"method.{k}", "mine") for k in config.method_fields("mine")}
    assert told["share"] == "of the old prototypes, in every round"
    assert told["low"] == told["high"] == "both ends"
    assert told["lam"] == meaning("method.lam", "fedproto") != ""
    mine.__doc__ = None
    assert meaning("method.share", "mine") == ""


def test_fields_of_one_value_come_together_again():
    given = {"lam": 3.0, "server_batch": 4, "tau": 1.0}
    assert registries.gathered(fedtgp, given) == {
        "pull": Pull(lam=3.0),
        "training": ServerTraining(server_batch=4),
        "tau": 1.0,
    }
    assert given == {"lam": 3.0, "server_batch": 4, "tau": 1.0}


def test_a_value_that_is_given_whole_is_changed_where_a_field_is_given_too():
    given = {"pull": Pull(lam=3.0, reg=None), "lam": 2.0}
    assert registries.gathered(fedproto, given) == {"pull": Pull(lam=2.0, reg=None)}


def test_a_plain_argument_of_the_same_name_stays_as_it_is():
    """RefProtoFL's `pull` is a distance."""
    assert registries.gathered(refprotofl, {"pull": max}) == {"pull": max}
