"""That something is refused, with the words of the message."""

import re

import pytest

from jaxproto.errors import UserError


def refused(message: str):
    """A block that ends in a UserError whose message holds these words."""
    return pytest.raises(UserError, match=re.escape(message))
