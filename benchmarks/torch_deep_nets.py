"""ResNets, GoogLeNet and vision transformers in plain PyTorch, without torchvision.

Names of modules follow torchvision, except for ResNet-4 to 10. Bodies end before the
classifier.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


def he_normal(net: nn.Module) -> nn.Module:
    """Initialises every convolution by He's normal distribution with fan-out."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out")
    return net


class BasicBlock(nn.Module):
    """ResNet's block: two 3x3 convolutions beside a shortcut."""

    widening = 1

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = shortcut(inputs, width, stride)

    def forward(self, x):
        """Maps [B, inputs, H, W] to [B, outputs, H', W']."""
        short = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)) + short)


class Bottleneck(nn.Module):
    """ResNet's bottleneck: 1x1, 3x3 and 1x1 convolutions beside a shortcut."""

    widening = 4

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.downsample = shortcut(inputs, 4 * width, stride)

    def forward(self, x):
        """Maps [B, inputs, H, W] to [B, outputs, H', W']."""
        short = x if self.downsample is None else self.downsample(x)
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        return F.relu(self.bn3(self.conv3(x)) + short)


def shortcut(inputs, outputs, stride):
    """Returns a 1x1 convolution with norm if shapes change, else None."""
    if stride == 1 and inputs == outputs:
        return None
    conv = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs))


class ResNet(nn.Module):
    """ResNet: ImageNet stem, stages of blocks, mean over the image."""

    def __init__(self, channels, block, counts):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.stages, inputs = [f"layer{i + 1}" for i in range(len(counts))], 64
        for i, count in enumerate(counts):
            blocks, width = [], 64 * 2**i
            for j in range(count):
                blocks.append(block(inputs, width, 2 if i > 0 and j == 0 else 1))
                inputs = width * block.widening
            self.add_module(self.stages[i], nn.Sequential(*blocks))

    def forward(self, x):
        """Maps [B, channels, H, W] to [B, width]."""
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in self.stages:
            x = getattr(self, stage)(x)
        return x.mean((2, 3))


class Unit(nn.Module):
    """GoogLeNet's convolution, with BatchNorm of eps 0.001 and ReLU."""

    def __init__(self, inputs, outputs, size, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False)
        self.bn = nn.BatchNorm2d(outputs, 0.001)
        nn.init.normal_(self.conv.weight, 0, 0.01)

    def forward(self, x):
        """Maps [B, inputs, H, W] to [B, outputs, H', W']."""
        return F.relu(self.bn(self.conv(x)))


class Inception(nn.Module):
    """GoogLeNet's block of four branches; the third has 3x3, as in torchvision."""

    def __init__(self, inputs, one, reduced3, three, reduced5, five, pooled):
        super().__init__()
        self.branch1 = Unit(inputs, one, 1)
        self.branch2 = nn.Sequential(
            Unit(inputs, reduced3, 1), Unit(reduced3, three, 3)
        )
        self.branch3 = nn.Sequential(Unit(inputs, reduced5, 1), Unit(reduced5, five, 3))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1), Unit(inputs, pooled, 1))

    def forward(self, x):
        """Maps [B, inputs, H, W] to [B, outputs, H, W]."""
        branches = self.branch1, self.branch2, self.branch3, self.branch4
        return torch.cat([branch(x) for branch in branches], 1)


class GoogLeNet(nn.Module):
    """GoogLeNet (Szegedy et al. 2014) with BatchNorm and dropout before pooling."""

    def __init__(self, channels):
        super().__init__()
        self.conv1, self.conv2 = Unit(channels, 64, 7, 2), Unit(64, 64, 1)
        self.conv3 = Unit(64, 192, 3)
        self.inception3a = Inception(192, 64, 96, 128, 16, 32, 32)
        self.inception3b = Inception(256, 128, 128, 192, 32, 96, 64)
        self.inception4a = Inception(480, 192, 96, 208, 16, 48, 64)
        self.inception4b = Inception(512, 160, 112, 224, 24, 64, 64)
        self.inception4c = Inception(512, 128, 128, 256, 24, 64, 64)
        self.inception4d = Inception(512, 112, 144, 288, 32, 64, 64)
        self.inception4e = Inception(528, 256, 160, 320, 32, 128, 128)
        self.inception5a = Inception(832, 256, 160, 320, 32, 128, 128)
        self.inception5b = Inception(832, 384, 192, 384, 48, 128, 128)
        self.drop = 0.2

    def forward(self, x):
        """Maps [B, channels, H, W] to [B, 1024]."""
        x = F.max_pool2d(self.conv1(x), 3, 2, ceil_mode=True)
        x = F.max_pool2d(self.conv3(self.conv2(x)), 3, 2, ceil_mode=True)
        x = self.inception3b(self.inception3a(x))
        x = self.inception4a(F.max_pool2d(x, 3, 2, ceil_mode=True))
        x = self.inception4d(self.inception4c(self.inception4b(x)))
        x = F.max_pool2d(self.inception4e(x), 2, 2, ceil_mode=True)
        x = self.inception5b(self.inception5a(x)).mean((2, 3))
        return F.dropout(x, self.drop, self.training)


class EncoderBlock(nn.Module):
    """Block of a vision transformer: attention and MLP after norms, with shortcuts."""

    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(768, 1e-6), nn.LayerNorm(768, 1e-6)
        self.self_attention = nn.MultiheadAttention(768, 12, batch_first=True)
        self.mlp = nn.Sequential(
            nn.Linear(768, 3072),
            nn.GELU(),
            nn.Identity(),
            nn.Linear(3072, 768),
        )
        for layer in (self.mlp[0], self.mlp[3]):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.normal_(layer.bias, std=1e-6)

    def forward(self, x):
        """Maps [B, L, 768] to [B, L, 768]."""
        y = self.ln_1(x)
        x = x + self.self_attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class VisionTransformer(nn.Module):
    """Vision transformer (Dosovitskiy et al. 2021) of base size."""

    def __init__(self, shape, patch):
        super().__init__()
        self.conv_proj = nn.Conv2d(shape[2], 768, patch, patch)
        nn.init.normal_(self.conv_proj.weight, std=math.sqrt(1 / (shape[2] * patch**2)))
        nn.init.zeros_(self.conv_proj.bias)
        self.class_token = nn.Parameter(torch.zeros(1, 1, 768))
        length = (shape[0] // patch) * (shape[1] // patch) + 1
        self.encoder = nn.Module()
        self.encoder.pos_embedding = nn.Parameter(0.02 * torch.randn(1, length, 768))
        blocks = {f"encoder_layer_{i}": EncoderBlock() for i in range(12)}
        self.encoder.layers = nn.Module()
        for name, block in blocks.items():
            self.encoder.layers.add_module(name, block)
        self.encoder.ln = nn.LayerNorm(768, 1e-6)

    def forward(self, x):
        """Maps [B, channels, H, W] to [B, 768]."""
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1)
        x = x + self.encoder.pos_embedding
        for block in self.encoder.layers.children():
            x = block(x)
        return self.encoder.ln(x)[:, 0]


def resnet(block, *counts):
    """Makes a ResNet body for a shape [H, W, channels]."""
    return lambda shape: he_normal(ResNet(shape[2], block, counts))


BODIES = {  # name -> shape [H, W, channels] -> body
    "resnet4": resnet(BasicBlock, 1),
    "resnet6": resnet(BasicBlock, 1, 1),
    "resnet8": resnet(BasicBlock, 1, 1, 1),
    "resnet10": resnet(BasicBlock, 1, 1, 1, 1),
    "resnet18": resnet(BasicBlock, 2, 2, 2, 2),
    "resnet34": resnet(BasicBlock, 3, 4, 6, 3),
    "resnet50": resnet(Bottleneck, 3, 4, 6, 3),
    "resnet101": resnet(Bottleneck, 3, 4, 23, 3),
    "resnet152": resnet(Bottleneck, 3, 8, 36, 3),
    "googlenet": lambda shape: GoogLeNet(shape[2]),
    "vit_b_16": lambda shape: VisionTransformer(shape, 16),
    "vit_b_32": lambda shape: VisionTransformer(shape, 32),
}
COUNTS = {  # bodies for 32x32x3: parameters, running means and variances
    "resnet4": (83_520, 384),
    "resnet6": (313_664, 1_152),
    "resnet8": (1_232_704, 2_688),
    "resnet10": (4_905_792, 5_760),
    "resnet18": (11_176_512, 9_600),
    "resnet34": (21_284_672, 17_024),
    "resnet50": (23_508_032, 53_120),
    "resnet101": (42_500_160, 105_344),
    "resnet152": (58_143_808, 151_424),
    "googlenet": (5_599_904, 14_560),
    "vit_b_16": (85_651_200, 0),
    "vit_b_32": (87_418_368, 0),
}
