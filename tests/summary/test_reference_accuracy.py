"""What accuracies are read against, and runs that fell to it."""

from support.every import every

from jaxproto.data.partition_stats import MajorityShare
from jaxproto.storage import records as metrics
from jaxproto.summary import reference_accuracy

ALONE = MajorityShare(pooled=0.7647, client_mean=0.7064, examples=17_507)


def records(*accuracies, rule="head"):
    """One evaluation every ten rounds."""
    return [
        {"round": 10 * i, "rules": {rule: {"pooled": a, "client_mean": a}}}
        for i, a in enumerate(accuracies, 1)
    ]


def test_a_rule_that_ends_at_the_share_collapsed_when_it_came_there():
    seen = records(0.7647, 0.9, 0.7648, 0.7646, 0.7647, 0.7647)
    assert reference_accuracy.collapsed_rules(seen, ALONE) == {"head": 30}
    few = MajorityShare(pooled=0.5, client_mean=0.5, examples=50)
    # Half an example is near enough and a whole one is not.
    assert reference_accuracy.collapsed_rules(records(*[0.509] * 3), few) == {
        "head": 10
    }
    assert reference_accuracy.collapsed_rules(records(*[0.52] * 3), few) == {}


@every(
    [
        (ALONE, (0.9, 0.7647, 0.7647)),  # too short
        (ALONE, (0.9, 0.7647, 0.7647, 0.77)),  # left again
        (ALONE, (0.9, 0.76, 0.7647, 0.7647)),  # twice
        (ALONE, (0.9, None, None, None)),  # unknown
        (ALONE, ()),
        (MajorityShare(1.0, 1.0, 50), (1.0, 1.0, 1.0)),  # one class is all there is
    ]
)
def test_a_rule_that_does_not_stay_there_has_not(share, accuracies):
    assert reference_accuracy.collapsed_rules(records(*accuracies), share) == {}


def test_a_run_is_told_its_reference_and_its_collapse_in_a_line_each():
    seen = records(0.9, *[0.7647] * 3)
    summary = {
        "rules": metrics.rule_summary(seen),
        **reference_accuracy.reference_fields(seen, ALONE),
    }
    worth, fell = reference_accuracy.reference_lines(summary)
    assert worth.startswith("reference: 76.47% is the share of test examples in their ")
    assert "(mean over clients 70.64%)" in worth and "configs/local.py" in worth
    assert fell == (
        "collapsed: head 76.47% since round 20 is the share of test examples in their "
        "client's commonest training class: the network always says that class"
    )
    assert reference_accuracy.reference_lines({"rules": {}}) == []
    (own, _) = reference_accuracy.reference_lines({**summary, "method": "local"})
    assert own.endswith("(mean over clients 70.64%)")
