"""Digests of callbacks, which tell whether that of a stopped run has changed."""

from jaxproto.callbacks.base import Callback
from jaxproto.config import code_digest

KEPT = "_digest_of_jaxproto"  # attribute of a callback


def callback_digest(callback: Callback) -> str:
    """Returns the digest of a callback's class and attributes before its first run."""
    state = getattr(callback, "__dict__", {})  # which handlers change later
    return state.get(KEPT) or state.setdefault(KEPT, code_digest.digest(callback)[0])
