"""What accuracies are read against, and runs that fell to it."""

import pytest

from jaxproto.data.describe import Commonest
from jaxproto.report import reference
from jaxproto.storage import records as metrics

ALONE = Commonest(pooled=0.7647, client_mean=0.7064, examples=17_507)


def records(*accuracies, rule="head"):
    """One evaluation every ten rounds."""
    return [
        {"round": 10 * i, "rules": {rule: {"pooled": a, "client_mean": a}}}
        for i, a in enumerate(accuracies, 1)
    ]


def test_a_rule_that_ends_at_the_share_collapsed_when_it_came_there():
    seen = records(0.7647, 0.9, 0.7648, 0.7646, 0.7647, 0.7647)
    assert reference.collapsed(seen, ALONE) == {"head": 30}


@pytest.mark.parametrize(
    "ends",
    [(0.7647, 0.7647), (0.7647, 0.7647, 0.77), (0.76, 0.7647, 0.7647), (None,) * 3],
    ids=["too short", "left again", "twice", "unknown"],
)
def test_a_rule_that_does_not_stay_there_has_not(ends):
    assert reference.collapsed(records(0.9, *ends), ALONE) == {}
    assert reference.collapsed([], ALONE) == {}


def test_half_an_example_is_near_enough_and_a_whole_one_is_not():
    few = Commonest(pooled=0.5, client_mean=0.5, examples=50)
    assert reference.collapsed(records(*[0.509] * 3), few) == {"head": 10}
    assert reference.collapsed(records(*[0.52] * 3), few) == {}


def test_where_one_class_is_all_there_is_nothing_can_collapse():
    one = Commonest(pooled=1.0, client_mean=1.0, examples=50)
    assert reference.collapsed(records(*[1.0] * 3), one) == {}


def test_a_run_is_told_its_reference_and_its_collapse_in_a_line_each():
    seen = records(0.9, *[0.7647] * 3)
    summary = {"rules": metrics.rule_summary(seen), **reference.fields(seen, ALONE)}
    worth, fell = reference.lines(summary)
    assert worth.startswith("reference: 0.7647 is the share of test examples in their ")
    assert "(mean over clients 0.7064)" in worth and "configs/local.py" in worth
    assert fell == (
        "collapsed: head 0.7647 since round 20 is the share of test examples in their "
        "client's commonest training class: the network always says that class"
    )
    assert reference.lines({"rules": {}}) == []
    (own, _) = reference.lines({**summary, "method": "local"})
    assert own.endswith("(mean over clients 0.7064)")
