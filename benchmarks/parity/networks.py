"""PyTorch networks with jaxproto's weights, and arrays under jaxproto's names."""

import re
from collections.abc import Iterable

import numpy as np
import torch
from torch import nn

from benchmarks import torch_nets
from benchmarks.parity.rules import BATCH_NORM, Rules
from jaxproto.errors import choose_from

RESNETS = ("resnet4", "resnet6", "resnet8", "resnet10", "resnet18")


def network(name: str, shape, rules: Rules, weights) -> nn.Module:
    """Builds a network with jaxproto's weights, without dropout."""
    padding = 0 if len(shape) < 3 or min(shape[:2]) >= 16 else 2
    bodies = {
        "mlp": lambda: torch_nets.mlp(shape),
        "cnn4": lambda: torch_nets.cnn4(shape, padding=padding),
        "cnn4_d": lambda: torch_nets.cnn4(shape, rules.dim, padding),
        **{
            name: lambda name=name: torch_nets.BODIES[name](shape)
            for name in (*RESNETS, *BATCH_NORM)
        },
    }
    body = bodies[choose_from("network of parity", name, bodies)]()
    net = torch_nets.Split(body, rules.dim, rules.classes)
    if rules.width:
        layers = {"map": (rules.dim, rules.width), "head": (rules.width, rules.classes)}
        adapter = {name: nn.Linear(*sizes) for name, sizes in layers.items()}
        net.adapter = nn.ModuleDict(adapter)
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum, module.eps = rules.bn_momentum, rules.bn_eps
        if hasattr(module, "drop"):
            module.drop = 0.0
    net.names = names_of(weights)
    load(net, weights)
    return net


def names_of(names: Iterable[str]) -> dict[str, str]:
    """Maps jaxproto's names of arrays to those of `torch_nets`."""
    names = [*names]
    block = re.compile(r"(features\.|stage)(\d+)\.(\d+)\.(block|branch)")
    matches = {block.search(name) for name in names} - {None}
    blocks = sorted({(int(m[2]), int(m[3])) for m in matches})  # of all stages
    efficient = any(m[4] == "block" for m in matches)

    def number(m):
        at = blocks.index((int(m[2]), int(m[3])))
        return f"features.{at + 1}.block" if efficient else f"stages.{at}.branch"

    def name_of(ours):
        name = block.sub(number, ours.replace("base.", "base.0."))
        if efficient and not block.search(ours):  # layers after the blocks
            name = name.replace("features.8.", f"features.{len(blocks) + 1}.")
        if small := re.search(r"layer_(\d)\.", name):
            # the released small ResNets have one block per stage, with bn2 and bn3
            name = name.replace(small[0], f"layer{int(small[1]) + 1}.0.")
            name = re.sub(r"\.bn(\d)", lambda m: f".bn{int(m[1]) - 1}", name)
        return name

    return {name: name_of(name) for name in names}


def load(net: nn.Module, weights):
    """Loads arrays under jaxproto's names into the network."""
    given = {net.names[k]: torch.tensor(v) for k, v in weights.items()}
    counters = {k: v for k, v in net.state_dict().items() if k.endswith("_tracked")}
    net.load_state_dict(given | counters)


def named(net: nn.Module) -> dict[str, np.ndarray]:
    """Copies all arrays of the network, under jaxproto's names."""
    state = net.state_dict()
    return {ours: state[name].numpy().copy() for ours, name in net.names.items()}
