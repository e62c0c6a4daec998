"""Differential privacy: clipping and noise on the client, and their accounting."""

from jaxproto.wrappers.privacy.mechanism import (
    CLIENT,
    EXAMPLE,
    NONE,
    OFF,
    UNITS,
    UPDATES,
    Privacy,
)
