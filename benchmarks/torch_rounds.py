"""ProtoNorm's round in eager PyTorch, one client after the other, in two forms.

`scripts_round` follows the released scripts of the field. Every function loads the
client's model from disk, and training saves it. Prototypes come from a second pass.
Targets and distances are computed example by example. Every client is evaluated by the
global prototypes on its test part and by the loss on its training part. Unlike the
scripts, it keeps the images in memory. `lean_round` also keeps models and prototypes in
memory, has no loops over examples or classes, and evaluates by distances alone.
"""

import copy
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks import torch_nets
from benchmarks.measure import Clock
from benchmarks.torch_loops import Hyper, align, device, wait


class Part(NamedTuple):
    """One client's data."""

    train: tuple[torch.Tensor, torch.Tensor]
    test: tuple[torch.Tensor, torch.Tensor]


def make_nets(names, shape, hyper: Hyper) -> list[nn.Module]:
    """Builds a network for each client from the names of the clients' networks."""
    torch_nets.check(set(names))
    build = torch_nets.build
    return [build(name, shape, hyper.classes, hyper.dim).to(device()) for name in names]


def scripts_round(folder: Path, nets, parts: list[Part], hyper: Hyper):
    """Returns the round of the scripts, with models and prototypes in `folder`."""
    for i, net in enumerate(nets):
        save(net, folder, i, "model")
    save(None, folder, "server", "protos")

    def run():
        clock = Clock()
        for i, part in enumerate(parts):
            train(folder, i, part, hyper)
            clock.lap("train")
            collect(folder, i, part, hyper)
            clock.lap("prototypes")
        protos = [load(folder, i, "protos") for i in range(len(parts))]
        save(aggregate(protos), folder, "server", "protos")
        clock.lap("server")
        right = [test_metrics(folder, i, p, hyper) for i, p in enumerate(parts)]
        loss = [train_metrics(folder, i, p, hyper) for i, p in enumerate(parts)]
        assert len(right) == len(loss)
        clock.lap("evaluate")
        return clock.parts

    return run


def save(item, folder: Path, who, what: str):
    """Writes one item of a client or of the server."""
    torch.save(item, folder / f"{who}_{what}.pt")


def load(folder: Path, who, what: str):
    """Reads an item that `save` wrote."""
    return torch.load(folder / f"{who}_{what}.pt", weights_only=False)


def loader(data, hyper: Hyper, drop_last: bool) -> DataLoader:
    """Makes a loader of batches in fixed order."""
    return DataLoader(TensorDataset(*data), hyper.batch, drop_last=drop_last)


def targets(feat, y_B, protos):
    """Returns the prototype of each example's class, or its features without one."""
    target = copy.deepcopy(feat.detach())
    for i, label in enumerate(y_B):
        if label.item() in protos:
            target[i] = protos[label.item()]
    return target


def received(folder: Path, hyper: Hyper):
    """Returns upscaled global prototypes by class, None before an aggregation."""
    protos = load(folder, "server", "protos")
    return protos and {j: hyper.gamma * p for j, p in protos.items()}


def total_loss(net, x_B, y_B, protos, hyper: Hyper):
    """Returns cross-entropy plus the pull towards upscaled prototypes, if any."""
    feat, logits = net(x_B)
    loss = F.cross_entropy(logits, y_B)
    if protos is not None:
        loss = loss + hyper.lam * F.mse_loss(feat, targets(feat, y_B, protos))
    return loss


def train(folder: Path, i: int, part: Part, hyper: Hyper):
    """Trains client i."""
    net, protos = load(folder, i, "model"), received(folder, hyper)
    optimizer = torch.optim.SGD(net.parameters(), hyper.rate)
    net.train()
    for x_B, y_B in loader(part.train, hyper, True):
        loss = total_loss(net, x_B.to(device()), y_B.to(device()), protos, hyper)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    save(net, folder, i, "model")


@torch.no_grad()
def collect(folder: Path, i: int, part: Part, hyper: Hyper):
    """Saves the mean features per class of client i, from a second pass."""
    net, rows = load(folder, i, "model").eval(), defaultdict(list)
    for x_B, y_B in loader(part.train, hyper, True):
        for feat, label in zip(net(x_B.to(device()))[0], y_B, strict=True):
            rows[label.item()].append(feat)
    protos = {label: sum(feats) / len(feats) for label, feats in rows.items()}
    save(protos, folder, i, "protos")


def aggregate(uploads) -> dict[int, torch.Tensor]:
    """Averages prototypes over the clients that have the class, then aligns them."""
    rows = defaultdict(list)
    for protos in uploads:
        for label, proto in protos.items():
            rows[label].append(proto)
    labels = sorted(rows)
    mean = torch.stack([sum(rows[j]) / len(rows[j]) for j in labels])
    return dict(zip(labels, align(mean)[0], strict=True))


@torch.no_grad()
def test_metrics(folder: Path, i: int, part: Part, hyper: Hyper) -> int:
    """Counts correct predictions of client i by the nearest global prototype."""
    net, protos = load(folder, i, "model").eval(), load(folder, "server", "protos")
    right = 0
    for x_B, y_B in loader(part.test, hyper, False):
        feats = net(x_B.to(device()))[0]
        dist = torch.full((len(y_B), hyper.classes), torch.inf, device=feats.device)
        for b, feat in enumerate(feats):
            for j, proto in protos.items():
                dist[b, j] = F.mse_loss(feat, proto)
        right += (dist.argmin(1).cpu() == y_B).sum().item()
    return right


@torch.no_grad()
def train_metrics(folder: Path, i: int, part: Part, hyper: Hyper) -> float:
    """Sums the loss of client i over its training part."""
    net, protos = load(folder, i, "model").eval(), received(folder, hyper)
    total = 0.0
    for x_B, y_B in loader(part.train, hyper, True):
        loss = total_loss(net, x_B.to(device()), y_B.to(device()), protos, hyper)
        total += loss.item() * len(y_B)
    return total


def lean_round(nets, parts: list[Part], hyper: Hyper):
    """Returns a round with models in memory and whole batches at once."""
    protos = torch.zeros(hyper.classes, hyper.dim, device=device())
    present = torch.zeros(hyper.classes, dtype=torch.bool, device=device())
    parts = [Part(*([t.to(device()) for t in side] for side in p)) for p in parts]

    def run():
        nonlocal protos, present
        clock, sums, counts = Clock(), 0, 0
        for net, part in zip(nets, parts, strict=True):
            lean_train(net, part, hyper, hyper.gamma * protos, present)
            clock.lap("train")
            sum_CD, count_C = lean_collect(net, part, hyper)
            sums = sums + sum_CD / count_C.clamp(min=1)[:, None]
            counts = counts + (count_C > 0)
            clock.lap("prototypes")
        present = counts > 0
        protos[present] = align(sums[present] / counts[present, None])[0]
        clock.lap("server")
        for net, part in zip(nets, parts, strict=True):
            for side in part:
                lean_evaluate(net, side, hyper, protos, present)
        wait()
        clock.lap("evaluate")
        return clock.parts

    return run


def split(data, hyper: Hyper):
    """Splits data into batches without a copy."""
    return zip(*(tensor.split(hyper.batch) for tensor in data), strict=True)


def lean_train(net, part: Part, hyper: Hyper, protos, present):
    """Trains one client, with targets gathered by label."""
    optimizer = torch.optim.SGD(net.parameters(), hyper.rate)
    net.train()
    for x_B, y_B in split(part.train, hyper):
        feat, logits = net(x_B)
        target = torch.where(present[y_B, None], protos[y_B], feat.detach())
        loss = F.cross_entropy(logits, y_B) + hyper.lam * F.mse_loss(feat, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def lean_collect(net, part: Part, hyper: Hyper):
    """Returns sums of features [C, D] and counts [C] per class."""
    net.eval()
    sums, counts = torch.zeros(hyper.classes, hyper.dim), torch.zeros(hyper.classes)
    sums, counts = sums.to(device()), counts.to(device())
    for x_B, y_B in split(part.train, hyper):
        sums.index_add_(0, y_B, net(x_B)[0])
        counts += y_B.bincount(minlength=hyper.classes)
    return sums, counts


@torch.no_grad()
def lean_evaluate(net, data, hyper: Hyper, protos, present) -> int:
    """Counts correct predictions by the nearest global prototype."""
    net.eval()
    right = 0
    for x_B, y_B in split(data, hyper):
        dist = torch.cdist(net(x_B)[0], protos)
        dist[:, ~present] = torch.inf
        right += (dist.argmin(1) == y_B).sum()
    return int(right)
