"""RefProtoFL in plain PyTorch, written from the paper (R).

anchors = mean over clients of public class means, or the mean by |D_kc| of the
          clients' own, before training, with the adapter as sent   (R Eq. 10 to 16)
loss    = CE + lam * pull of z towards anchors                      (R Eq. 17 to 19)
adapter = mean by |D_k| of the entries that moved most on a client  (R Eq. 3 to 7)
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from benchmarks.parity import record
from benchmarks.parity.formulas import class_means, mean_of, nearness
from benchmarks.parity.record import Record
from benchmarks.parity.theirs import Theirs, Trained


class RefProtoFL(Theirs):
    """Federation that shares an adapter and anchors."""

    def __init__(self, *args):
        super().__init__(*args)
        given = self.start.server.items()
        self.adapter = {k: torch.tensor(v).to(self.dtype) for k, v in given}

    @torch.no_grad()
    def exchange(self) -> Record:
        """Loads the broadcast adapter; records anchors of public or own examples."""
        ids, rules = range(len(self.nets)), self.rules
        for net in self.nets:
            net.adapter.load_state_dict(self.adapter)
        own = [self.collect(i) for i in ids]
        public = [self.collect(i, self.start.public) for i in ids]
        local, public_means = (
            torch.stack([class_means(*s) for s in sums]) for sums in (own, public)
        )
        counts = torch.stack([n for _, n in own])
        anchors = mean_of(rules.aggregate, local, counts)  # R Eq. 15
        if rules.anchors == "public":
            covered = public[0][1] > 0
            anchors[covered] = public_means.mean(0)[covered]  # R Eq. 14
        new = {record.ANCHORS: {"server": anchors.numpy()}}
        self.protos = self.tensor(new, record.ANCHORS)
        return new

    def outputs(self, net: nn.Module, x):
        """Returns z and logits of the client's adapter (R Eq. 9)."""
        z = F.relu(net.adapter["map"](net(x)[0]))
        return z, net.adapter["head"](z)

    @torch.no_grad()
    def serve(self, every: list[Trained], order: np.ndarray | None) -> Record:
        """Averages the entries that clients sent."""
        old = torch.cat([v.flatten() for v in self.adapter.values()])
        adapters = [net.adapter.state_dict() for net in self.nets]
        value = torch.stack(
            [torch.cat([own[k].flatten() for k in self.adapter]) for own in adapters]
        )
        count = max(round(self.rules.budget * len(old)), 1)
        top = (value - old).abs().topk(count).indices
        weight = torch.zeros_like(value).scatter_(1, top, 1.0)
        if self.rules.adapters == "by_examples":
            weight *= torch.tensor([len(rows) for rows in self.start.train])[:, None]
        total = weight.sum(0)
        mean = torch.where(total > 0, (weight * value).sum(0) / total, old)
        parts = mean.split([v.numel() for v in self.adapter.values()])
        new = {
            f"server, {k}": part.reshape(v.shape).numpy()
            for (k, v), part in zip(self.adapter.items(), parts, strict=True)
        }
        made = {record.ADAPTER: new}
        for k in self.adapter:
            self.adapter[k] = self.tensor(made, record.ADAPTER, f"server, {k}")
        return made

    def scores(self, i: int, net: nn.Module, x) -> dict[str, torch.Tensor]:
        """Returns scores by the own adapter, the broadcast one, and anchors."""
        z, logits = self.outputs(net, x)
        layer = {k.replace(".", "_"): v for k, v in self.adapter.items()}
        seen = F.relu(F.linear(net(x)[0], layer["map_weight"], layer["map_bias"]))
        received = F.linear(seen, layer["head_weight"], layer["head_bias"])
        return {
            "head": logits,
            "received": received,
            "global": nearness(z, self.protos),
        }
