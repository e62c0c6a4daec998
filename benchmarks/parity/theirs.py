"""Local, FedProto and ProtoNorm in plain PyTorch, one client after the other.

Written from the papers; equation numbers are those of ProtoNorm (Lee, Shin, Choi:
Heterogeneous Federated Learning with Prototype Alignment and Upscaling):

    c_ij = mean of f_i(x) over the examples of class j, after training   (Eq. 2)
    g_j  = plain mean of c_ij over the clients that hold class j         (Eq. 7)
    ProtoNorm: g = Alignment(g), on the server                           (Eq. 8 to 14)
    loss = CE + lam * pull towards gamma * g                             (Eq. 4, 5, 15)

A class that nobody has sent pulls nothing. Distances to global prototypes are to the
upscaled ones, as trained. The same loops in float64 tell what rounding does.
"""

import re
from typing import NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks import torch_nets
from benchmarks.parity import record
from benchmarks.parity.record import Record, Start
from benchmarks.parity.rules import Rules
from benchmarks.torch_loops import align
from jaxproto.errors import choose_from

SWEEP = 256  # examples at a time, without gradients


class Trained(NamedTuple):
    """What local training of a client gave besides its weights."""

    losses: list[float]  # of all steps
    rows: np.ndarray  # [S, B] of the pool, -1 where no example counts
    first: dict[str, np.ndarray]  # weights after each of the first steps [S, ...]
    sums: tuple  # of features and examples, unless they are collected afterwards


class Theirs:
    """A federation in PyTorch that goes on by one round at a time."""

    def __init__(self, start: Start, rules: Rules, dtype=torch.float32):
        """Networks with the given weights.

        Args:
          start: what both sides share.
          rules: of the method.
          dtype: of all that is computed.
        """
        self.start, self.rules, self.dtype = start, rules, dtype
        self.x, self.y = torch.tensor(start.x), torch.tensor(start.y).long()
        shape = start.x.shape[1:]
        self.nets = [
            network(name, shape, rules, given).to(dtype)
            for name, given in zip(start.names, start.weights, strict=True)
        ]
        self.protos = torch.full((rules.classes, rules.dim), torch.nan, dtype=dtype)

    def round(self, order: list[np.ndarray], given: Record | None = None) -> Record:
        """The next round.

        Args:
          order: positions [E, M] in each client's rows, by client id.
          given: jaxproto's record of the round. With it every stage starts from
            jaxproto's result of the one before, so that differences stay where they
            arise; without it the federation goes its own way.
        """
        self.given, down, every = given or {}, self.upscaled(), []
        for i in range(len(self.nets)):
            every.append(self.train(i, order[i], down))
        made = self.trained(every)
        self.take_over(made)
        own = [self.collected(i, each) for i, each in enumerate(every)]
        made |= self.aggregate(own) if self.rules.shares else {}
        return made | self.evaluated()

    def take_step(self, i: int, net: nn.Module, s: int):
        """Client i goes on with jaxproto's weights after step `s`, if given."""
        found = self.given.get(record.STEP)
        if found is not None:
            load(net, {name: found[record.client(i, name)][s] for name in named(net)})

    def take_over(self, made: Record):
        """The networks go on with jaxproto's weights."""
        for i, net in enumerate(self.nets):
            names = named(net)
            found = self.given.get(record.WEIGHTS, made[record.WEIGHTS])
            load(net, {name: found[record.client(i, name)] for name in names})

    def tensor(self, made: Record, quantity: str, where: str = "server"):
        """Prototypes to go on with: jaxproto's if they are given."""
        value = self.given.get(quantity, made[quantity])[where]
        return torch.tensor(np.asarray(value)).to(self.dtype)

    def upscaled(self) -> torch.Tensor:
        """Eq. 15."""
        return self.rules.upscale * self.protos

    def images(self, rows: np.ndarray) -> torch.Tensor:
        """Inputs as the networks read them; images have mean 0.5 and spread 0.5."""
        x = self.x[torch.as_tensor(rows).long()]
        if x.dtype == torch.uint8:
            x = (x.to(self.dtype) / 255 - 0.5) / 0.5
        return x.to(self.dtype).movedim(-1, 1) if x.ndim == 4 else x.to(self.dtype)

    def labels(self, rows: np.ndarray) -> torch.Tensor:
        """Classes [B]."""
        return self.y[torch.as_tensor(rows).long()]

    def train(self, i: int, order: np.ndarray, down) -> Trained:
        """Local training of a client that receives the prototypes `down`."""
        net, rows_M, losses, used = self.nets[i], self.start.train[i], [], []
        early = self.rules.collect == "before_training"
        sums = self.collect(i) if early else self.no_sums()
        optimizer, first = torch.optim.SGD(net.parameters(), self.rules.rate), []
        net.train()
        for position, real in steps(order, len(rows_M), self.rules):
            rows = rows_M[position]
            feat, logits = (a[real] for a in net(self.images(rows)))
            y = self.labels(rows[real])
            loss = F.cross_entropy(logits, y)
            if self.rules.shares:
                loss = loss + self.rules.lam * pull(self.rules.reg, feat, y, down)
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
        """Sums and counts behind a client's prototypes."""
        after = self.rules.collect == "after_training"
        return self.collect(i) if after else trained.sums

    def no_sums(self):
        """Of features [C, D] and of examples [C]."""
        sums = torch.zeros(self.rules.classes, self.rules.dim, dtype=self.dtype)
        return sums, torch.zeros(self.rules.classes, dtype=self.dtype)

    @torch.no_grad()
    def collect(self, i: int):
        """Second pass over all examples of a client: sums of features, counts."""
        net, rows_M = self.nets[i].eval(), self.start.train[i]
        sums, counts = self.no_sums()
        for rows in chunks(rows_M):
            add(sums, counts, net(self.images(rows))[0], self.labels(rows))
        return sums, counts

    def trained(self, every: list[Trained]) -> Record:
        """What is known when all clients have trained."""
        ids = {record.client(i): each for i, each in enumerate(every)}
        return {
            record.BATCHES: {i: each.rows for i, each in ids.items()},
            record.FIRST: {i: np.asarray(each.losses[0]) for i, each in ids.items()},
            record.STEP: record.of_clients([each.first for each in every]),
            record.WEIGHTS: record.of_clients([named(net) for net in self.nets]),
            record.LOSS: {"all clients": np.mean([np.mean(t.losses) for t in every])},
        }

    def aggregate(self, own) -> Record:
        """The server's step: mean over clients, then alignment."""
        local, counts = (
            [class_means(*each) for each in own],
            [n for _, n in own],
        )  # Eq. 2
        ids = [record.client(i) for i in range(len(own))]
        made = {record.LOCAL: {i: p.numpy() for i, p in zip(ids, local, strict=True)}}
        self.local = [self.tensor(made, record.LOCAL, i) for i in ids]
        both = torch.stack(self.local), torch.stack(counts)
        mean = mean_of(self.rules.aggregate, *both)
        made[record.MEAN] = {"server": mean.numpy()}
        protos, steps = aligned(self.tensor(made, record.MEAN), self.rules)
        made[record.ITERATIONS] = {"server": np.asarray(steps, float)}
        made[record.GLOBAL] = {"server": protos.numpy()}
        self.protos = self.tensor(made, record.GLOBAL)
        return made

    @torch.no_grad()
    def evaluated(self) -> Record:
        """Scores of the test examples by every rule, and correct predictions."""
        made = {}
        for i, net in enumerate(self.nets):
            y, net = self.labels(self.start.test[i]), net.eval()
            parts = [net(self.images(rows)) for rows in chunks(self.start.test[i])]
            feat, logits = (torch.cat(part) for part in zip(*parts, strict=True))
            found = {"head": logits}
            if self.rules.shares:
                found["local"] = nearness(feat, self.local[i])  # Eq. 6
                found["global"] = nearness(feat, self.upscaled())
            for rule, scores in found.items():
                best, predicted = scores.max(-1)
                right = ((predicted == y) & best.isfinite()).sum()
                at = made.setdefault(record.SCORES.format(rule), {})
                at[record.client(i)] = record.below_best(scores.numpy())
                at = made.setdefault(record.CORRECT.format(rule), {})
                at[record.client(i)] = np.asarray(right.item(), float)
        return made


def network(name: str, shape, rules: Rules, weights) -> nn.Module:
    """The network `name` with the weights of jaxproto's."""
    padding = 0 if len(shape) < 3 or min(shape[:2]) >= 16 else 2
    bodies = {
        "mlp": lambda: torch_nets.mlp(shape),
        "cnn4": lambda: torch_nets.cnn4(shape, padding=padding),
        "cnn4_d": lambda: torch_nets.cnn4(shape, rules.dim, padding),
        **{
            name: lambda name=name: torch_nets.BODIES[name](shape)
            for name in ("resnet4", "resnet6", "resnet8", "resnet10", "resnet18")
        },
    }
    body = bodies[choose_from("network that parity knows", name, bodies)]()
    net = torch_nets.Split(body, rules.dim, rules.classes)
    net.names = {name: name_of(name) for name in weights}
    load(net, weights)
    return net


def name_of(ours: str) -> str:
    """What an array of jaxproto's is called in `torch_nets`."""
    name = ours.replace("base.", "base.0.")
    block = re.search(r"layer_(\d)\.", name)
    if block:  # the small ResNets, one block per stage: bn2 and bn3, as released
        name = name.replace(block[0], f"layer{int(block[1]) + 1}.0.")
        name = re.sub(r"\.bn(\d)", lambda m: f".bn{int(m[1]) - 1}", name)
    return name


def load(net: nn.Module, weights):
    """Puts arrays under jaxproto's names into the network."""
    given = {net.names[k]: torch.tensor(v) for k, v in weights.items()}
    counters = {k: v for k, v in net.state_dict().items() if k.endswith("_tracked")}
    net.load_state_dict(given | counters)


def named(net: nn.Module) -> dict[str, np.ndarray]:
    """Copies of all arrays under the names that jaxproto gives them."""
    held = net.state_dict()
    return {k: held[there].numpy().copy() for k, there in net.names.items()}


def steps(order: np.ndarray, size: int, rules: Rules):
    """Positions [B] of every step, and which count.

    Whole batches of every epoch; a client below one batch repeats its examples, which
    then do not count.
    """
    for epoch in order:
        for s in range(max(size // rules.batch, 1)):
            at = s * rules.batch + np.arange(rules.batch)
            position = at % size
            yield (epoch[position] if rules.order == "given" else position), at < size


def chunks(rows: np.ndarray):
    """The rows, some at a time."""
    return (rows[i : i + SWEEP] for i in range(0, len(rows), SWEEP))


def pull(reg: str, feat, y, protos) -> torch.Tensor:
    """The pull of features [B, D] towards prototypes [C, D], NaN where none is."""
    here = ~protos[:, 0].isnan()
    if reg == "l2_of_means":  # Eq. 5 on a batch: sum over its classes
        each = [feat[y == j].mean(0) - protos[j] for j in y.unique() if here[j]]
        return sum((gap.norm() for gap in each), start=feat.new_zeros(()))
    target = torch.where(here[y, None], protos[y], feat.detach())
    squared = F.mse_loss(feat, target)
    return squared * feat.shape[1] if reg == "sq_l2_mean" else squared


def add(sums, counts, feat, y):
    """Adds a batch to the sums per class, in place."""
    sums.index_add_(0, y, feat)
    counts += y.bincount(minlength=len(counts))


def class_means(sums, counts) -> torch.Tensor:
    """Prototypes [C, D], NaN where there is no example."""
    return sums / counts[:, None]  # 0 / 0


def mean_of(how: str, local, counts) -> torch.Tensor:
    """Mean over clients [K, C, D] of prototypes, NaN where nobody has any."""
    held = counts > 0
    weight = (held if how == "mean_over_clients" else counts).to(local.dtype)
    total = (weight[..., None] * local.nan_to_num(0)).sum(0)
    mean = total / weight.sum(0)[:, None]  # Eq. 7: plain
    return mean / held.sum(0)[:, None] if how == "as_printed" else mean  # Eq. 3


def aligned(mean, rules: Rules):
    """The mean after the alignment of the classes that are there, and iterations."""
    here, found = ~mean[:, 0].isnan(), mean.clone()
    if not rules.iterations:
        return found, 0
    found[here], iterations = align(mean[here], rules.iterations, rules.patience)
    return found, iterations


def nearness(feat, protos) -> torch.Tensor:
    """Minus the mean squared distances [B, C]; -inf where there is no prototype."""
    distance = torch.stack([(feat - p).square().mean(-1) for p in protos], 1)
    return -distance.nan_to_num(torch.inf)
