"""Networks in PyTorch with the weights of jaxproto's, and their arrays by its names."""

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
    """The network `name` with the weights of jaxproto's, without random dropout."""
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
    body = bodies[choose_from("network that parity knows", name, bodies)]()
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


def names_of(every: Iterable[str]) -> dict[str, str]:
    """What arrays of jaxproto's are called in `torch_nets`."""
    every = [*every]
    block = re.compile(r"(features\.|stage)(\d+)\.(\d+)\.(block|branch)")
    found = {block.search(name) for name in every} - {None}
    blocks = sorted({(int(m[2]), int(m[3])) for m in found})  # of all stages in a row
    efficient = any(m[4] == "block" for m in found)

    def number(m):
        at = blocks.index((int(m[2]), int(m[3])))
        return f"features.{at + 1}.block" if efficient else f"stages.{at}.branch"

    def name_of(ours):
        name = block.sub(number, ours.replace("base.", "base.0."))
        if efficient and not block.search(ours):  # what comes after the blocks
            name = name.replace("features.8.", f"features.{len(blocks) + 1}.")
        if small := re.search(r"layer_(\d)\.", name):
            # the small ResNets, one block per stage: bn2 and bn3, as released
            name = name.replace(small[0], f"layer{int(small[1]) + 1}.0.")
            name = re.sub(r"\.bn(\d)", lambda m: f".bn{int(m[1]) - 1}", name)
        return name

    return {name: name_of(name) for name in every}


def load(net: nn.Module, weights):
    """Puts arrays under jaxproto's names into the network."""
    given = {net.names[k]: torch.tensor(v) for k, v in weights.items()}
    counters = {k: v for k, v in net.state_dict().items() if k.endswith("_tracked")}
    net.load_state_dict(given | counters)


def named(net: nn.Module) -> dict[str, np.ndarray]:
    """Copies of all arrays under the names that jaxproto gives them."""
    held = net.state_dict()
    return {k: held[there].numpy().copy() for k, there in net.names.items()}
