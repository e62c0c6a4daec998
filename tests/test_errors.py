"""Words that messages share."""

import numpy as np
from support.refusal import refused

from jaxproto import errors
from jaxproto.errors import UserError, choose_from, first_few, group_by_reason, shorten


def test_long_lists_are_cut_and_counted_and_one_reason_is_told_once():
    assert first_few([]) == ""
    assert first_few(range(5)) == "0, 1, 2, 3, 4"
    assert first_few(np.arange(6)) == "0, 1, 2, 3, 4, ... (6 in all)"
    assert first_few((c for c in "abc"), most=1) == "a, ... (3 in all)"
    told = group_by_reason({"a": "a is one.", "b": "b is one.", "c": "never."})
    assert told == ["a, b: is one.", "c: never."]


def test_a_name_that_is_not_there_is_answered_with_the_nearest_or_with_all():
    assert choose_from("method", "local", {"local": 0, "fedavg": 1}) == "local"
    with refused("unknown method 'lokal'. Did you mean 'loc"):
        choose_from("method", "lokal", ["local", "fedavg"])
    with refused("unknown method 'x'. There are: fedavg, loca"):
        choose_from("method", "x", ["local", "fedavg"])


def test_what_cannot_be_printed_is_escaped_and_a_long_value_is_cut_in_the_middle():
    error = UserError("label '\x1b[31m\udcff\u202e' of\nthe file ü")
    assert str(error) == "label '\\x1b[31m\\udcff\\u202e' of\nthe file ü"
    assert shorten("a" * 1000).count("a") == errors.LONGEST - 2
    assert shorten(["a"]) == "['a']"
