"""Refusals, with the words of their messages."""

import re

import pytest

from jaxproto.errors import UserError


def refused(*words):
    """A block that ends in a UserError with these words in its message, in order."""
    escaped = (re.escape(str(part)) for part in words)
    return pytest.raises(UserError, match="(?s:.*)".join(escaped))
