"""The released networks in plain PyTorch, without torchvision.

Structures follow the released code and the papers of the networks, names of modules
follow torchvision. Every network is a body, the channel pooling and a linear head.
`check` compares the number of parameters with `COUNTS` and exits if one differs.
"""

import math
import sys
from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import torch_deep_nets, torch_sequences
from benchmarks.torch_deep_nets import he_normal


class Split(nn.Module):
    """Body, AdaptiveAvgPool1d over its channels, head (BaseHeadSplit)."""

    def __init__(self, body: nn.Module, dim: int, classes: int):
        super().__init__()
        self.base = nn.Sequential(body, nn.AdaptiveAvgPool1d(dim))
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        """Returns features and logits."""
        feat = self.base(x)
        return feat, self.head(feat)


def unit(inputs, outputs, size=3, stride=1, groups=1, act: Callable | None = nn.ReLU):
    """Builds a convolution without bias, BatchNorm and an activation."""
    conv = nn.Conv2d(
        inputs, outputs, size, stride, (size - 1) // 2, groups=groups, bias=False
    )
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), *([act()] if act else []))


class InvertedResidual(nn.Module):
    """MobileNetV2's block: 1x1 expansion, depthwise 3x3, 1x1 projection."""

    def __init__(self, inputs, outputs, stride, expand):
        super().__init__()
        hidden = inputs * expand
        wide = [unit(inputs, hidden, 1, act=nn.ReLU6)] if expand != 1 else []
        self.conv = nn.Sequential(
            *wide,
            unit(hidden, hidden, 3, stride, hidden, nn.ReLU6),
            *unit(hidden, outputs, 1, act=None),
        )
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x):
        """Maps [B, inputs, H, W] to [B, outputs, H', W']."""
        return x + self.conv(x) if self.residual else self.conv(x)


class MobileNetV2(nn.Module):
    """MobileNetV2 (Sandler et al. 2018), with its dropout before the pooling."""

    STAGES = (  # expansion, channels, blocks, stride
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )

    def __init__(self, channels):
        super().__init__()
        features, width = [unit(channels, 32, 3, 2, act=nn.ReLU6)], 32
        for expand, new, blocks, stride in self.STAGES:
            for i in range(blocks):
                step = stride if i == 0 else 1
                features.append(InvertedResidual(width, new, step, expand))
                width = new
        features.append(unit(width, 1280, 1, act=nn.ReLU6))
        self.features, self.drop = he_normal(nn.Sequential(*features)), 0.2

    def forward(self, x):
        """Maps [B, channels, H, W] to [B, 1280]."""
        return F.dropout(self.features(x).mean((2, 3)), self.drop, self.training)


class ShuffleUnit(nn.Module):
    """ShuffleNetV2's block: convolves half of the channels, or all to halve maps."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        half, self.halves = outputs // 2, stride > 1
        self.branch1 = nn.Sequential()
        if self.halves:
            self.branch1 = nn.Sequential(
                *unit(inputs, inputs, 3, stride, inputs, None), *unit(inputs, half, 1)
            )
        self.branch2 = nn.Sequential(
            *unit(inputs if self.halves else half, half, 1),
            *unit(half, half, 3, stride, half, None),
            *unit(half, half, 1),
        )

    def forward(self, x):
        """Maps [B, inputs, H, W] to [B, outputs, H', W'], with mixed channels."""
        left, right = (x, x) if self.halves else x.chunk(2, 1)
        x = torch.stack((self.branch1(left), self.branch2(right)), 2)
        return x.flatten(1, 2)


class ShuffleNetV2(nn.Module):
    """ShuffleNetV2 (Ma et al. 2018) of width 1.0."""

    def __init__(self, channels):
        super().__init__()
        self.conv1, stages, width = unit(channels, 24, 3, 2), [], 24
        for new, blocks in ((116, 4), (232, 8), (464, 4)):
            for i in range(blocks):
                stages.append(ShuffleUnit(width, new, 2 if i == 0 else 1))
                width = new
        self.stages, self.conv5 = nn.Sequential(*stages), unit(width, 1024, 1)

    def forward(self, x):
        """Maps [B, channels, H, W] to [B, 1024]."""
        x = self.stages(F.max_pool2d(self.conv1(x), 3, 2, 1))
        return self.conv5(x).mean((2, 3))


class SqueezeExcite(nn.Module):
    """Scaling of the channels by a small network of their means."""

    def __init__(self, width, squeezed):
        super().__init__()
        self.fc1 = nn.Conv2d(width, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, width, 1)

    def forward(self, x):
        """Scales the channels of [B, C, H, W]."""
        mean = F.adaptive_avg_pool2d(x, 1)
        return x * torch.sigmoid(self.fc2(F.silu(self.fc1(mean))))


class MBConv(nn.Module):
    """EfficientNet's block: inverted residual, squeeze-excite, stochastic depth."""

    def __init__(self, inputs, outputs, size, stride, expand, drop):
        super().__init__()
        hidden = inputs * expand
        wide = [unit(inputs, hidden, 1, act=nn.SiLU)] if expand != 1 else []
        self.block = nn.Sequential(
            *wide,
            unit(hidden, hidden, size, stride, hidden, nn.SiLU),
            SqueezeExcite(hidden, inputs // 4),
            unit(hidden, outputs, 1, act=None),
        )
        self.residual, self.drop = stride == 1 and inputs == outputs, drop

    def forward(self, x):
        """Maps [B, inputs, H, W] to [B, outputs, H', W']."""
        new = self.block(x)
        if not self.residual:
            return new
        if self.training and self.drop:
            keep = torch.empty(len(x), 1, 1, 1, device=x.device)
            new = new * keep.bernoulli_(1 - self.drop) / (1 - self.drop)
        return x + new


class EfficientNetB0(nn.Module):
    """EfficientNet-B0 (Tan and Le 2019), stochastic depth from 0 to 0.1875."""

    STAGES = (  # expansion, kernel, stride, channels, blocks
        (1, 3, 1, 16, 1),
        (6, 3, 2, 24, 2),
        (6, 5, 2, 40, 2),
        (6, 3, 2, 80, 3),
        (6, 5, 1, 112, 3),
        (6, 5, 2, 192, 4),
        (6, 3, 1, 320, 1),
    )

    def __init__(self, channels):
        super().__init__()
        features, width, done = [unit(channels, 32, 3, 2, act=nn.SiLU)], 32, 0
        for expand, size, stride, new, blocks in self.STAGES:
            for i in range(blocks):
                step, drop = stride if i == 0 else 1, 0.2 * done / 16
                features.append(MBConv(width, new, size, step, expand, drop))
                width, done = new, done + 1
        features.append(unit(width, 1280, 1, act=nn.SiLU))
        self.features = he_normal(nn.Sequential(*features))

    def forward(self, x):
        """Maps [B, channels, H, W] to [B, 1280]."""
        return self.features(x).mean((2, 3))


def cnn4(shape, hidden=512, padding=0):
    """Builds PFLlib's FedAvgCNN, released with 512 hidden units and no padding."""
    rows, cols = shape[:2]
    for _ in range(2):
        rows, cols = ((n + 2 * padding - 4) // 2 for n in (rows, cols))

    def conv(inputs, outputs):
        layer = nn.Conv2d(inputs, outputs, 5, padding=padding)
        return nn.Sequential(layer, nn.ReLU(), nn.MaxPool2d(2))

    layers = {"conv1": conv(shape[2], 32), "conv2": conv(32, 64), "flat": nn.Flatten()}
    layers["fc1"] = nn.Sequential(nn.Linear(rows * cols * 64, hidden), nn.ReLU())
    return nn.Sequential(OrderedDict(layers))


def mlp(shape):
    """Builds two hidden layers of 256 units for inputs of any shape."""
    layers = {"flat": nn.Flatten(), "fc1": nn.Linear(math.prod(shape), 256)}
    layers |= {"relu1": nn.ReLU(), "fc2": nn.Linear(256, 256), "relu2": nn.ReLU()}
    return nn.Sequential(OrderedDict(layers))


BODIES = {  # name -> shape [H, W, channels] -> body
    **torch_deep_nets.BODIES,
    **torch_sequences.BODIES,
    "mobilenet_v2": lambda shape: MobileNetV2(shape[2]),
    "shufflenet_v2_x1_0": lambda shape: ShuffleNetV2(shape[2]),
    "efficientnet_b0": lambda shape: EfficientNetB0(shape[2]),
    "cnn4": cnn4,
}
COUNTS = {  # bodies for 32x32x3: parameters, running means and variances
    **torch_deep_nets.COUNTS,
    "mobilenet_v2": (2_223_872, 34_112),
    "shufflenet_v2_x1_0": (1_253_604, 16_180),
    "efficientnet_b0": (4_007_548, 42_016),
    "cnn4": (873_408, 0),
}


def build(name: str, shape, classes: int, dim: int) -> Split:
    """Builds the network `name`; EfficientNet has dropout before its head."""
    net = Split(BODIES[name](shape), dim, classes)
    if name == "efficientnet_b0":
        net.head = nn.Sequential(nn.Dropout(0.2), net.head)
    return net


def check(names):
    """Exits if the size of a network differs from the released one."""
    for name in names:
        body = BODIES[name]((32, 32, 3))
        stats = [b.numel() for b in body.buffers() if b.ndim]
        got = sum(p.numel() for p in body.parameters()), sum(stats)
        if got != COUNTS[name]:
            sys.exit(f"error: torch {name} has {got} numbers, not {COUNTS[name]}.")
