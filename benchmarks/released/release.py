"""Modules, networks and batches that released code is given."""

import random
import sys
import types
from collections.abc import Iterable
from importlib.machinery import ModuleSpec
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch import nn

from benchmarks import torch_nets
from benchmarks.parity.networks import load, named, names_of
from benchmarks.released import workload
from jaxproto.core.types import Tree
from jaxproto.models import to_torch

COMMON = {  # settings that both libraries read
    "algorithm": "",
    "client_drop_rate": 0.0,
    "current_num_join_clients": len(workload.SIZES),
    "dataset": "",
    "device": "cpu",
    "few_shot": 0,
    "local_epochs": workload.EPOCHS,
    "local_learning_rate": workload.RATE,
    "num_classes": workload.CLASSES,
    "num_clients": len(workload.SIZES),
    "num_join_clients": len(workload.SIZES),
}
LEFT_OUT = {  # module -> its attribute that others import
    "flcore.trainmodel.models": "BaseHeadSplit",
    "h5py": "File",
    "utils.data_utils": "read_client_data",
    "utils.dlg": "DLG",
}
NOT_SLOW = {"train_slow": False, "send_slow": False}


def begin(source: Path):
    """Makes a library's modules importable, without those that the methods leave out.

    The order of uploads is that of the clients. PFLlib draws it, and its FedPAC then
    gives the combined head of one client to another.
    """
    sys.path.insert(0, str(source / "system"))
    for module, attribute in LEFT_OUT.items():
        sys.modules[module] = types.ModuleType(module)
        setattr(sys.modules[module], attribute, None)
    random.sample = lambda population, k: [*population][:k]


def importable(folder: Path, left_out: Iterable[str] = (), **attributes):
    """Makes the modules of a folder importable, with a stub in place of others.

    Args:
      folder: Folder of a checkout.
      left_out: Modules that a method does not use.
      **attributes: Attributes of the stub that have to be of a kind.
    """
    sys.path.insert(0, str(folder))
    stub = mock.MagicMock(**attributes)
    stub.__spec__ = ModuleSpec("stub", None)  # PyTorch reads it
    sys.modules.update(dict.fromkeys(left_out, stub))


class Network(nn.Module):
    """Network `mlp` as a body and a head, as both libraries split theirs."""

    def __init__(self, params: Tree, dim: int = workload.DIM):
        super().__init__()
        weights = to_torch(params, {})
        split = torch_nets.Split(torch_nets.mlp(workload.SHAPE), dim, workload.CLASSES)
        split.names = names_of(weights)
        load(split, weights)
        self.base, self.head, self.names = split.base, split.head, split.names

    def forward(self, x):
        """Returns logits [B, C]."""
        return self.head(self.base(x))


def flat(net: Network) -> np.ndarray:
    """Returns all parameters [P], in the order of `ours.flat`."""
    arrays = named(net)
    return np.concatenate([arrays[name].ravel() for name in sorted(arrays)])


def tensors(x: np.ndarray, y: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Converts examples to normalised inputs [M, 1, 8, 8] and labels [M]."""
    x = (torch.tensor(x).reshape(-1, 1, 8, 8).float() / 255 - 0.5) / 0.5
    return x, torch.tensor(y).long()


def batches(x: np.ndarray, y: np.ndarray) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Splits examples into batches, in their order."""
    return [*zip(*(t.split(workload.BATCH) for t in tensors(x, y)), strict=True)]


def linear(kernel: np.ndarray, bias: np.ndarray | None = None) -> nn.Linear:
    """Builds a layer with jaxproto's weights."""
    layer = nn.Linear(*kernel.shape, bias=bias is not None)
    weights = {"weight": kernel.T} | ({} if bias is None else {"bias": bias})
    layer.load_state_dict({k: torch.tensor(v) for k, v in weights.items()})
    return layer
