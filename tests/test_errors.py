"""Words that messages share."""

import numpy as np
import pytest

from jaxproto.errors import LONGEST, UserError, cut, pick, some, told_once


def test_long_lists_are_cut_and_counted_and_one_reason_is_told_once():
    assert some([]) == ""
    assert some(["a", "b"]) == "a, b"
    assert some(range(5)) == "0, 1, 2, 3, 4"
    assert some(np.arange(6)) == "0, 1, 2, 3, 4, ... (6 in all)"
    assert some((c for c in "abc"), most=1) == "a, ... (3 in all)"
    told = told_once({"a": "a is one.", "b": "b is one.", "c": "never."})
    assert told == ["a, b: is one.", "c: never."]


def test_a_name_that_is_not_there_is_answered_with_the_nearest_and_with_all():
    assert pick("method", "local", {"local": 0, "fedavg": 1}) == "local"
    with pytest.raises(UserError, match=r"unknown method 'lokal'. Did you mean 'loc"):
        pick("method", "lokal", ["local", "fedavg"])
    with pytest.raises(UserError, match=r"unknown method 'x'. There are: fedavg, loca"):
        pick("method", "x", ["local", "fedavg"])


def test_what_cannot_be_printed_is_escaped_and_a_long_value_is_cut_in_the_middle():
    error = UserError("label '\x1b[31m\udcff\u202e' of\nthe file ü")
    assert str(error) == "label '\\x1b[31m\\udcff\\u202e' of\nthe file ü"
    assert cut("a" * 1000).count("a") == LONGEST - 2
    assert cut(["a"]) == "['a']"
