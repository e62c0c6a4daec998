import copy
import pickle

import pytest
from support.refusal import refused

from jaxproto import config

WRONG = [
    ("rounds", "ten", "rounds is a whole number, not 'ten'."),
    ("seed", 1.5, "seed is a whole number, not 1.5."),
    ("method.lam", "abc", "lam is a number, not 'abc'."),
    ("optimizer", "adam", "optimizer is a group of fields, such as"),
    ("eval.metrics", ["auc"], "metrics is a text, not ['auc']."),
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
