"""Reference accuracies of a run: one class alone, and clients alone.

Clients with skewed labels are right on many examples if they always say their commonest
training class. A run that ends at exactly that accuracy has learnt nothing else: it has
collapsed, as prototypes do that are drawn to one point.
"""

import itertools
from collections.abc import Mapping, Sequence

from jaxproto.data.partition_stats import MajorityShare
from jaxproto.methods import REFERENCE

STEADY = 3  # evaluations at the end of a run that must agree
NEAR = 2e-4  # difference of accuracies that count as equal, or half an example if more
CLASS = "test examples in their client's commonest training class"
MEANS = f"is the share of {CLASS}: the network always says that class"


def collapsed_rules(
    records: Sequence[Mapping], majority: MajorityShare
) -> dict[str, int]:
    """Finds rules that end at the accuracy of each client's commonest class.

    A rule has collapsed if its pooled accuracies are those of that class, to within
    0.02 points or half an example, in the last three evaluations or more.

    Returns:
      {rule: round of the first of these evaluations}; {} where every test
      example is of its client's commonest class.
    """
    near = max(NEAR, 0.5 / max(majority.examples, 1))
    if not records or majority.pooled >= 1 - near:
        return {}
    since = {r: _since(records, r, majority.pooled, near) for r in records[-1]["rules"]}
    return {rule: r for rule, r in since.items() if r is not None}


def _since(records, rule, share, near):
    """Returns the round from which on a rule stays near a share; None if too short."""
    rows = [(r["round"], r["rules"].get(rule, {}).get("pooled")) for r in records]

    def near_share(row):
        return row[1] is not None and abs(row[1] - share) <= near

    rounds = [r for r, _ in itertools.takewhile(near_share, reversed(rows))]
    return rounds[-1] if len(rounds) >= STEADY else None


def reference_fields(records: Sequence[Mapping], majority: MajorityShare) -> dict:
    """Returns the entries `commonest_class` and `collapsed` of a `summary.json`."""
    collapsed = collapsed_rules(records, majority)
    return {"commonest_class": majority._asdict(), "collapsed": collapsed}


def reference_lines(summary: Mapping) -> list[str]:
    """Returns the lines below the accuracies of a run; none for an older summary."""
    lines = []
    if share := summary.get("commonest_class"):
        line = f"reference: {share['pooled']:.2%} is the share of {CLASS} "
        line += f"(mean over clients {share['client_mean']:.2%})"
        if summary.get("method") != REFERENCE:
            line += f"; configs/{REFERENCE}.py on the same data gives what clients "
            line += "reach alone"
        lines.append(line)
    for rule, since in summary.get("collapsed", {}).items():
        final = summary["rules"][rule]["pooled"]["final"]
        lines.append(f"collapsed: {rule} {final:.2%} since round {since} {MEANS}")
    return lines
