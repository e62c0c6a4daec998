"""Export of the network of a client as a `state_dict` of PyTorch."""

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import safetensors.numpy

from jaxproto import models
from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.lab.saved_runs.saved_client import SavedClient

Entries = dict[str, np.ndarray]


def to_torch(client: SavedClient, path: Path):
    """Writes the network `params["net"]` of a client; `models.from_torch` reads it.

    Raises:
      UserError: The network is not one of this library, the suffix is not one of
        `WRITERS`, or torch, which `.pt` needs, is not installed.
      Unwritable: The file cannot be written.
    """
    if not models.is_mapped(client.architecture):
        raise UserError(
            f"network {client.architecture!r} is none of this library, and how PyTorch "
            "would name and lay out its arrays is not known: take client.params['net'] "
            "and client.norm['net'] as they are."
        )
    if path.suffix not in WRITERS:
        raise UserError(
            f"{path} is no file of weights: its name must end in {', '.join(WRITERS)}."
        )
    arrays = models.to_torch(client.params["net"], client.norm["net"])
    entries = {k: np.ascontiguousarray(v) for k, v in arrays.items()}
    atomic.write(path, WRITERS[path.suffix](entries))


def _npz(entries: Entries) -> bytes:
    content = io.BytesIO()
    np.savez(content, **entries)  # type: ignore[arg-type]
    return content.getvalue()


def _torch(entries: Entries) -> bytes:
    try:
        import torch
    except ImportError as e:
        raise UserError(
            "torch is not installed, which a .pt file needs; a .safetensors file needs "
            "none and holds the same."
        ) from e
    content = io.BytesIO()
    torch.save({name: torch.from_numpy(a) for name, a in entries.items()}, content)
    return content.getvalue()


WRITERS: dict[str, Callable[[Entries], bytes]] = {
    ".safetensors": safetensors.numpy.save,
    ".npz": _npz,
    ".pt": _torch,
    ".pth": _torch,
}
