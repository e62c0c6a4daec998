"""What a run shows beside its baselines: a table, and one sentence."""

import math
from collections.abc import Mapping

from jaxproto.summary.table_formats import TableView, Value

PREDICTS = {  # rule -> what predicts, in a sentence
    "head": "the clients' own classifiers",
    "global": "the nearest global prototype",
    "global_own": "the nearest global prototype of the client's own classes",
    "local": "the nearest prototype of the client itself",
    "received": "the received model",
}
HEAD = ("method", "rule", "test accuracy %", "mean over clients %", "kB per round")


def table(
    runs: Mapping[str, Mapping], majority: Mapping, notes: tuple[str, ...] = ()
) -> TableView:
    """Returns the accuracies after the last round, a row per method and rule.

    Args:
      runs: name of a method as printed -> its `summary.json`.
      majority: the entry `commonest_class` of a summary.
      notes: sentences below the table.
    """
    rows: list[tuple[Value, ...]] = [
        ("most frequent class of each client", None, *_percent(majority), 0.0)
    ]
    for name, summary in runs.items():
        sent = summary["bytes_per_round"]
        kilobytes = round(sum(n or 0 for n in sent.values()) / 1000, 1)
        for rule, averages in summary["rules"].items():
            final = {k: averages[k]["final"] for k in ("pooled", "client_mean")}
            rows.append((name, rule, *_percent(final), kilobytes))
    return TableView("After the last round", HEAD, tuple(rows), notes)


def _percent(shares: Mapping) -> list[Value]:
    found = (shares["pooled"], shares["client_mean"])
    return [None if x is None else round(100 * x, 1) for x in found]


def sentence(runs: Mapping[str, Mapping], name: str, baseline: str) -> str:
    """Returns what one run shows beside another by the first rule that both have.

    A difference counts if it exceeds two standard errors that the test examples alone
    would give it. Other seeds and other partitions add to that.

    Args:
      runs: as of `table`.
      name: the run.
      baseline: the run that it is compared with.
    """
    own, other = (runs[key]["rules"] for key in (name, baseline))
    rule = next((rule for rule in other if rule in own), None)
    if rule is None:
        return f"found: {name} and {baseline} have no prediction rule in common"
    finals = [rules[rule]["pooled"]["final"] for rules in (own, other)]
    if None in finals:
        return f"found: {name} or {baseline} has no accuracy after its last round"
    examples = max(runs[name]["commonest_class"]["examples"], 1)
    gain, share = 100 * (finals[0] - finals[1]), sum(finals) / 2
    error = 100 * math.sqrt(2 * share * (1 - share) / examples)
    verdict = f"{abs(gain):.1f} points {'more' if gain > 0 else 'less'}"
    if abs(gain) <= 2 * error:
        verdict = "no clear difference"
    return (
        f"found: by {PREDICTS.get(rule, f'rule {rule}')}, {name} is right on "
        f"{finals[0]:.1%} of {examples:,} test examples, {baseline} on "
        f"{finals[1]:.1%}: {verdict} (one seed)"
    )
