"""Words that messages share."""

from jaxproto import errors
from jaxproto.errors import UserError, first_few, group_by_reason, shorten


def test_long_lists_are_counted_one_reason_is_told_once_and_odd_letters_are_escaped():
    assert first_few(range(5)) == "0, 1, 2, 3, 4"
    assert first_few((c for c in "abc"), most=1) == "a, ... (3 in all)"
    told = group_by_reason({"a": "a is one.", "b": "b is one.", "c": "never."})
    assert told == ["a, b: is one.", "c: never."]
    error = UserError("label '\x1b[31m\udcff\u202e' of\nthe file ü")
    assert str(error) == "label '\\x1b[31m\\udcff\\u202e' of\nthe file ü"
    assert shorten("a" * 1000).count("a") == errors.LONGEST - 2
