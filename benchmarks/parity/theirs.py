"""Prototype methods in plain PyTorch, one client after the other.

Written from the papers; equation numbers are those of ProtoNorm (Lee, Shin, Choi:
Heterogeneous Federated Learning with Prototype Alignment and Upscaling):

    c_ij = mean of f_i(x) over the examples of class j, after training   (Eq. 2)
    g_j  = plain mean of c_ij over the clients that have class j         (Eq. 7)
    ProtoNorm: g = Alignment(g), on the server                           (Eq. 8 to 14)
    loss = CE + lam * pull towards gamma * g                             (Eq. 4, 5, 15)

TinyProto (T) and CPS+PPA+CPKD (S) add masks and scaled sums (T Eq. 7, 10, 11; S Eq. 7,
11) and weights of classes (S Eq. 12). FedTGP's generator is in `generator`, RefProtoFL
in `refprotofl`. A class without uploads pulls nothing. Distances to global prototypes
use the upscaled ones, as in training. The loops also run in float64, to measure
rounding.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.parity import generator, record
from benchmarks.parity.formulas import (
    add,
    aligned,
    chunks,
    class_means,
    mean_of,
    nearness,
    pull,
    steps,
)
from benchmarks.parity.networks import load, named, network
from benchmarks.parity.record import Order, Record, Start
from benchmarks.parity.rules import Rules


class Trained(NamedTuple):
    """Results of local training of a client, besides its weights."""

    losses: list[float]  # of all steps
    rows: np.ndarray  # [S, B] of the pool, -1 where no example counts
    first: dict[str, np.ndarray]  # weights after each of the first steps [S, ...]
    sums: tuple  # of features and examples, unless they are collected afterwards


class Theirs:
    """Federation in PyTorch that runs one round at a time."""

    def __init__(self, start: Start, rules: Rules, dtype=torch.float32):
        """Builds networks with the given weights.

        Args:
          start: initial state that both sides share.
          rules: rules of the method.
          dtype: dtype of all computations.
        """
        self.start, self.rules, self.dtype = start, rules, dtype
        self.x, self.y = torch.tensor(start.x), torch.tensor(start.y).long()
        shape = start.x.shape[1:]
        self.nets = [
            network(name, shape, rules, given).to(dtype)
            for name, given in zip(start.names, start.weights, strict=True)
        ]
        self.length = rules.width or rules.dim  # of prototypes
        self.protos = torch.full((rules.classes, self.length), torch.nan, dtype=dtype)
        self.count = torch.tensor(start.counts).to(dtype)  # n_ij
        self.mask = torch.ones((), dtype=dtype)
        if rules.masks == "given":
            self.mask = torch.tensor(start.masks).to(dtype)
        if rules.base == "fedtgp":
            self.generator = generator.of(start.server, dtype)

    def round(self, order: Order, given: Record | None = None) -> Record:
        """Runs the next round.

        Args:
          order: orders of examples and uploads.
          given: jaxproto's record of the round. With it, every stage starts from
            jaxproto's result of the previous stage, so that differences stay where
            they arise. Without it, the federation trains independently.
        """
        self.given = given or {}
        made, down = self.exchange(), self.upscaled()
        every = [self.train(i, own, down) for i, own in enumerate(order.clients)]
        made |= self.trained(every)
        self.take_over(made)
        made |= self.serve(every, order.server) if self.rules.shares else {}
        return made | self.evaluated()

    def exchange(self) -> Record:
        """Runs an exchange before training; there is none by default."""
        return {}

    def outputs(self, net: nn.Module, x):
        """Returns features, of which prototypes are means, and logits."""
        return net(x)

    def emphasis(self, i: int):
        """Returns the weights [C] of a client's classes in the pull (S Eq. 12)."""
        if self.rules.distill == "none":
            return torch.ones_like(self.count[i])
        return self.count[i] / self.count[i].max()

    def take_step(self, i: int, net: nn.Module, s: int):
        """Loads jaxproto's weights of client i after step `s`, if given."""
        found = self.given.get(record.STEP)
        if found is not None:
            load(net, {name: found[record.client(i, name)][s] for name in named(net)})

    def take_over(self, made: Record):
        """Loads jaxproto's weights after training into all networks, if given."""
        for i, net in enumerate(self.nets):
            names = named(net)
            found = self.given.get(record.WEIGHTS, made[record.WEIGHTS])
            load(net, {name: found[record.client(i, name)] for name in names})

    def tensor(self, made: Record, quantity: str, where: str = "server"):
        """Returns the value to continue with: jaxproto's if it is given."""
        value = self.given.get(quantity, made[quantity])[where]
        return torch.tensor(np.asarray(value)).to(self.dtype)

    def upscaled(self) -> torch.Tensor:
        """Returns upscaled global prototypes (Eq. 15)."""
        return self.rules.upscale * self.protos

    def images(self, rows: np.ndarray) -> torch.Tensor:
        """Returns network inputs; images are normalised by mean 0.5 and std 0.5."""
        x = self.x[torch.as_tensor(rows).long()]
        if x.dtype == torch.uint8:
            x = (x.to(self.dtype) / 255 - 0.5) / 0.5
        return x.to(self.dtype).movedim(-1, 1) if x.ndim == 4 else x.to(self.dtype)

    def labels(self, rows: np.ndarray) -> torch.Tensor:
        """Returns labels [B]."""
        return self.y[torch.as_tensor(rows).long()]

    def train(self, i: int, order: np.ndarray, down) -> Trained:
        """Trains a client that receives the prototypes `down`."""
        net, rows_M, losses, used = self.nets[i], self.start.train[i], [], []
        early = self.rules.collect == "before_training"
        sums = self.collect(i) if early else self.no_sums()
        optimizer, first = torch.optim.SGD(net.parameters(), self.rules.rate), []
        net.train()
        for position, real in steps(order, len(rows_M), self.rules):
            rows = rows_M[position]
            feat, logits = (a[real] for a in self.outputs(net, self.images(rows)))
            y = self.labels(rows[real])
            loss = F.cross_entropy(logits, y)
            if self.rules.shares:
                sparse = self.rules.compare == "sparse" and self.mask.ndim
                seen = feat * self.mask[y] if sparse else feat
                term = pull(self.rules.reg, seen, y, down, self.emphasis(i))
                loss = loss + self.rules.lam * term
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if len(first) < record.STEPS:
                first.append(named(net))
                self.take_step(i, net, len(first) - 1)
            used.append(np.where(real, rows, -1))
            if self.rules.collect == "train_pass":
                add(*sums, feat.detach(), y)
        return Trained(losses, np.stack(used), record.stacked(first), sums)

    def collected(self, i: int, trained: Trained):
        """Returns the sums and counts of a client's prototypes."""
        after = self.rules.collect == "after_training"
        return self.collect(i) if after else trained.sums

    def no_sums(self):
        """Returns zero sums of features [C, D] and zero counts of examples [C]."""
        sums = torch.zeros(self.rules.classes, self.length, dtype=self.dtype)
        return sums, torch.zeros(self.rules.classes, dtype=self.dtype)

    @torch.no_grad()
    def collect(self, i: int, rows_M: np.ndarray | None = None):
        """Returns sums and counts of a second pass, over own examples by default."""
        net, sums = self.nets[i].eval(), self.no_sums()
        for rows in chunks(self.start.train[i] if rows_M is None else rows_M):
            add(*sums, self.outputs(net, self.images(rows))[0], self.labels(rows))
        return sums

    def trained(self, results: list[Trained]) -> Record:
        """Records batches, losses and weights of local training."""
        ids = {record.client(i): each for i, each in enumerate(results)}
        return {
            record.BATCHES: {i: each.rows for i, each in ids.items()},
            record.FIRST: {i: np.asarray(each.losses[0]) for i, each in ids.items()},
            record.STEP: record.of_clients([each.first for each in results]),
            record.WEIGHTS: record.of_clients([named(net) for net in self.nets]),
            record.LOSS: {"all clients": np.mean([np.mean(t.losses) for t in results])},
        }

    def serve(self, every: list[Trained], order: np.ndarray | None) -> Record:
        """Runs the server's step on the prototypes of the clients."""
        sums = [self.collected(i, each) for i, each in enumerate(every)]
        local, counts = [class_means(*each) for each in sums], [n for _, n in sums]
        ids = [record.client(i) for i in range(len(sums))]
        made = {record.LOCAL: {i: p.numpy() for i, p in zip(ids, local, strict=True)}}
        self.local = [self.tensor(made, record.LOCAL, i) for i in ids]
        stacked = torch.stack(self.local), torch.stack(counts)
        if self.rules.averages:
            made |= self.average(*stacked)
        else:
            made |= self.sparse(*stacked, order)
        self.protos = self.tensor(made, record.GLOBAL)
        return made

    def average(self, local, counts) -> Record:
        """Averages prototypes over clients, then aligns them."""
        mean = mean_of(self.rules.aggregate, local, counts)
        made = {record.MEAN: {"server": mean.numpy()}}
        protos, steps = aligned(self.tensor(made, record.MEAN), self.rules)
        made[record.ITERATIONS] = {"server": np.asarray(steps, float)}
        return made | {record.GLOBAL: {"server": protos.numpy()}}

    def sparse(self, local, counts, order: np.ndarray | None) -> Record:
        """Reduces masked and scaled uploads, by a mean or FedTGP's generator."""
        present, rules, made = counts > 0, self.rules, {}
        clients = present.sum(0)
        up = local.nan_to_num(0) * self.mask
        if rules.scaling != "none":
            up = up * self.count[..., None] * rules.mu
        if rules.scaling == "sum":  # so that the mean over clients is the sum
            up = up * clients[:, None]
        protos = up.sum(0) / clients[:, None]
        if rules.base == "fedtgp":
            delta = generator.margin(protos, clients > 0, rules.tau)
            generator.train(self.generator, rules, up, present, delta, order)
            weights = self.generator.state_dict()
            new = {f"server, {k}": v.numpy().copy() for k, v in weights.items()}
            made = {record.GENERATOR: new}
            for k, v in weights.items():
                v.copy_(self.tensor(made, record.GENERATOR, f"server, {k}"))
            protos = self.generator().detach() * self.mask
        return made | {record.GLOBAL: {"server": protos.numpy()}}

    @torch.no_grad()
    def evaluated(self) -> Record:
        """Records scores and correct predictions of test examples by every rule."""
        made = {}
        for i, net in enumerate(self.nets):
            y, net = self.labels(self.start.test[i]), net.eval()
            parts = [
                self.scores(i, net, self.images(rows))
                for rows in chunks(self.start.test[i])
            ]
            for rule in parts[0]:
                scores = torch.cat([part[rule] for part in parts])
                best, predicted = scores.max(-1)
                right = ((predicted == y) & best.isfinite()).sum()
                at = made.setdefault(record.SCORES.format(rule), {})
                at[record.client(i)] = record.below_best(scores.numpy())
                at = made.setdefault(record.CORRECT.format(rule), {})
                at[record.client(i)] = np.asarray(right.item(), float)
        return made

    def scores(self, i: int, net: nn.Module, x) -> dict[str, torch.Tensor]:
        """Returns scores [B, C] of inputs by every rule."""
        feat, logits = self.outputs(net, x)
        scores_by_rule = {"head": logits}
        if self.rules.shares:
            scores_by_rule["local"] = nearness(feat, self.local[i])  # Eq. 6
            scores_by_rule["global"] = nearness(feat, self.upscaled())
        return scores_by_rule
