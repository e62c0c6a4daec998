"""Words that messages share."""

import numpy as np
import pytest

from jaxproto.errors import UserError, pick, some


def test_long_lists_are_cut_and_counted():
    assert some([]) == ""
    assert some(["a", "b"]) == "a, b"
    assert some(range(5)) == "0, 1, 2, 3, 4"
    assert some(np.arange(6)) == "0, 1, 2, 3, 4, ... (6 in all)"
    assert some((c for c in "abc"), most=1) == "a, ... (3 in all)"


def test_a_name_that_is_not_there_is_answered_with_the_nearest_and_with_all():
    assert pick("method", "local", {"local": 0, "fedavg": 1}) == "local"
    with pytest.raises(UserError, match=r"unknown method 'lokal'. Did you mean 'loc"):
        pick("method", "lokal", ["local", "fedavg"])
    with pytest.raises(UserError, match=r"unknown method 'x'. There are: fedavg, loca"):
        pick("method", "x", ["local", "fedavg"])
