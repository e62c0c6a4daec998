import copy
import pickle
from pathlib import Path

import pytest
from support.refusal import refused
from support.runs import ROOT

import jaxproto
from jaxproto import config
from jaxproto.data import registry

WRONG = [
    ("rounds", "ten", "rounds is 'ten'; it must be a whole number, at least 1 and"),
    ("seed", 1.5, "seed is 1.5; it must be a whole number, from 0 to 2**32"),
    ("method.lam", "abc", "method.lam is 'abc'; it must be a number, at least 0."),
    ("data.clients", 2.5, "data.clients is 2.5; it must be a whole number, at least 1"),
    ("eval.clients", 2.5, "eval.clients is 2.5; it must be all | a number."),
    ("attack.clients", [1], "attack.clients is [1]; it must be "),
    ("data.pool", 1, "data.pool is 1; it must be True or False."),
    ("data.name", b"digits", "data.name is b'digits'; it must be digits | "),
    ("optimizer", "adam", "optimizer is a group of fields, such as"),
    ("eval.metrics", ["auc"], "eval.metrics is ['auc']; it must be accuracy | "),
]


@pytest.mark.parametrize("copied", [lambda c: c, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize(("path", "value", "words"), WRONG)
def test_a_value_of_another_type_is_refused_with_the_field(copied, path, value, words):
    c = copied(config.experiment("fedproto", "digits"))
    c = pickle.loads(c) if isinstance(c, bytes) else c
    *groups, key = path.split(".")
    for name in groups:
        c = c[name]
    with refused(words):
        setattr(c, key, value)


def test_whole_numbers_are_numbers_and_copies_are_equal():
    c = config.experiment("fedproto", "digits")
    c.method.lam = 2
    resolved = c.copy_and_resolve_references()
    assert c.method.lam == 2.0 and c == resolved == copy.deepcopy(c)


def test_texts_may_be_given_as_the_numbers_and_paths_that_the_command_line_takes():
    c = config.experiment("fedproto", "digits")
    c.eval.clients, c.clients_at_once, c.data.data_dir = 2, 4, Path("/data")
    assert (c.eval.clients, c.clients_at_once, c.data.data_dir) == ("2", "4", "/data")
    config.check(c)
    c.data.name = 3
    with refused("unknown data set '3'"):
        registry.load(c.data.name)
    c.eval.clients = 0
    with refused("eval.clients is '0'; it is all, or a number of clients such as 100"):
        config.check(c)


def test_a_configuration_is_a_name_a_file_or_a_dict():
    c = config.load("local:digits")
    assert config.from_name(c.to_dict()) == c == config.from_name(c)
    assert config.from_name(ROOT / "configs" / "local.py") == config.load("local")
    for wrong in (None, 3, ["local"], config):
        with refused("the configuration is ", "it must be one of config.load"):
            jaxproto.check(wrong)
    with refused("rounds is 'x'; it must be a whole number"):
        jaxproto.check({**c.to_dict(), "rounds": "x"})
    with refused("the configuration lacks attack.clients, ", " in all); start from"):
        jaxproto.check({"rounds": 3})
