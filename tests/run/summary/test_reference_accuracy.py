"""Reference of accuracies, and runs that collapsed to it."""

from support.every import every

from jaxproto.data.partition_stats import MajorityShare
from jaxproto.storage import records as metrics
from jaxproto.summary import reference_accuracy

ALONE = MajorityShare(pooled=0.7647, client_mean=0.7064, examples=17_507)


def records(*accuracies, rule="head"):
    """One evaluation every ten rounds."""
    each = [{"pooled": a, "client_mean": a} for a in accuracies]
    return [{"round": 10 * i, "rules": {rule: a}} for i, a in enumerate(each, 1)]


FEW, WHOLE = MajorityShare(0.5, 0.5, 50), MajorityShare(1.0, 1.0, 50)


@every(
    [
        (ALONE, (0.7647, 0.9, 0.7648, 0.7646, 0.7647, 0.7647), {"head": 30}),
        (FEW, (0.509,) * 3, {"head": 10}),  # half an example is near enough
        (FEW, (0.52,) * 3, {}),  # a whole one is not
        (ALONE, (0.9, 0.7647, 0.7647), {}),  # too short
        (ALONE, (0.9, 0.7647, 0.7647, 0.77), {}),  # left again
        (ALONE, (0.9, 0.76, 0.7647, 0.7647), {}),  # twice
        (ALONE, (0.9, None, None, None), {}),  # unknown
        (WHOLE, (1.0, 1.0, 1.0), {}),  # one class is all there is
    ]
)
def test_a_rule_collapsed_when_it_came_to_the_share_and_stayed(share, accuracies, want):
    assert reference_accuracy.collapsed_rules(records(*accuracies), share) == want


def test_a_run_is_told_its_reference_and_its_collapse_in_a_line_each():
    seen = records(0.9, *[0.7647] * 3)
    summary = {"rules": metrics.rule_summary(seen)}
    summary |= reference_accuracy.reference_fields(seen, ALONE)
    worth, fell = reference_accuracy.reference_lines(summary)
    assert worth.startswith("reference: 76.47% is the share of test examples in their ")
    assert "(mean over clients 70.64%)" in worth
    assert fell.startswith("collapsed: head 76.47% since round 20 is the share of ")
