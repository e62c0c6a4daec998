"""Random keys of rounds that a node or server keeps secret under privacy.

Noise and sampling do not protect against an adversary who can reproduce them, and all
parties know `seed`. So each folder has its own secret. The secret is saved, so that a
repeated round has the same noise.
"""

import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_collections

from jaxproto.core.jax_settings import IMPLEMENTATION
from jaxproto.core.types import Array
from jaxproto.errors import UserError
from jaxproto.io import atomic, owner_only
from jaxproto.training import programs
from jaxproto.wrappers.privacy import OFF

FILE = "secret"  # in the folder of a node or server, mode 0600
KEY_BYTES = 8  # of a JAX key


def round_contexts(
    config: ml_collections.ConfigDict, path: Path
) -> Callable[[Array | int], programs.Context]:
    """Returns a function from a round, from 0, to its number and key.

    Without privacy, or with `privacy.secret` off, keys are those of the simulator.

    Args:
      path: Folder of the node or server.
    """
    if config.privacy.unit == OFF or not config.privacy.secret:
        return partial(programs.round_context, config.seed)
    secret = jnp.frombuffer(folder_secret(path), jnp.uint32)
    root = jax.random.wrap_key_data(secret, impl=IMPLEMENTATION)
    return lambda r: (jnp.int32(r), jax.random.fold_in(root, r))


def folder_secret(path: Path) -> bytes:
    """Returns the secret of a folder; draws it at the first call."""
    file = path / FILE
    if not file.exists():
        if not path.exists():
            owner_only.owner_only_folder(path)
        atomic.write(file, secrets.token_bytes(KEY_BYTES), private=True)
    try:
        secret = owner_only.read_owner_only(file)
    except (OSError, owner_only.NotOwnedError) as e:
        raise UserError(f"{file} cannot be used: {e}.") from e
    if len(secret) != KEY_BYTES:
        raise UserError(
            f"{file} is damaged: it has {len(secret)} bytes, not {KEY_BYTES}. A new "
            "one would spend privacy again: start the federation anew elsewhere."
        )
    return secret
