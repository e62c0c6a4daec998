"""The prediction rule by which each printed accuracy was measured.

All papers print the best round. S and N print the same numbers for baselines, but their
texts differ. T, S and N share the released code of their family (HtFLlib), which pools
over test examples (docs/decisions.md#judged):

- prototype methods: the nearest global prototype of all classes. The texts of T and N
  say local prototypes; S has no released code and says global ones.
- LG-FedAvg: own body with the received head, as evaluation precedes local training.
- FML, FedKD, FedDistill: the client's own network.
- FedNH, FedUV (N Table 3): not stated; the client's own network after training, as 46 %
  on CIFAR-100 is beyond one network for all.

R states no rule and has no released code. Of the rules of its averaging methods the
mean over clients of their own networks fits best, 3 to 6 points above what it prints;
the received network is 14 to 18 points above. One rule for all its methods.
"""

from typing import NamedTuple

from jaxproto.papers.cells import require_cell
from jaxproto.papers.numbers import PublishedNumber

GLOBAL = ("fedproto", "fedtgp", "protonorm", "tinyproto", "cps_ppa_cpkd")
RULES = {**dict.fromkeys(GLOBAL, "global"), "lg_fedavg": "received"}  # others: head
WITHOUT_HEAD = ("fast",)  # its clients keep no network of their own


class PublishedRule(NamedTuple):
    """A prediction rule and an average over clients."""

    rule: str
    average: str  # of `records.rule_summary`

    def __str__(self):
        """Returns `global`, or `head, mean over clients`."""
        return self.rule + ", mean over clients" * (self.average == "client_mean")


def published_rule(row: PublishedNumber) -> PublishedRule:
    """Returns the rule by which a printed accuracy was measured."""
    if row.source == "refprotofl":
        return PublishedRule("head", "client_mean")
    method = require_cell(row).identity["method.name"]
    return PublishedRule(RULES.get(method, "head"), "pooled")
