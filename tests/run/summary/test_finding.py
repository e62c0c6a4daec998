"""The table and the sentence about a run beside its baselines."""

from support.every import every

from jaxproto.summary import finding
from jaxproto.summary.table_formats import render


def summary(sent=0, examples=1000, **accuracies):
    finals = {
        rule: {"pooled": {"final": a}, "client_mean": {"final": a and a - 0.1}}
        for rule, a in accuracies.items()
    }
    commonest = {"pooled": 0.4, "client_mean": 0.3, "examples": examples}
    sizes = {"up": sent, "down": 2 * sent}
    return {"rules": finals, "commonest_class": commonest, "bytes_per_round": sizes}


def test_the_table_has_the_majority_class_and_a_row_per_method_and_rule():
    runs = {"Local": summary(head=0.7), "Mine": summary(1500, head=0.8, local=None)}
    view = finding.table(runs, runs["Mine"]["commonest_class"], ("a note",))
    assert view.rows == (
        ("most frequent class of each client", None, 40.0, 30.0, 0.0),
        ("Local", "head", 70.0, 60.0, 0.0),
        ("Mine", "head", 80.0, 70.0, 4.5),
        ("Mine", "local", None, None, 4.5),
    )
    assert "a note" in render(view)


@every(
    [
        ({"head": 0.8}, "by the clients' own classifiers, Mine is right on 80.0% of "),
        ({"head": 0.8}, ", Local on 70.0%: 10.0 points more (one seed)"),
        ({"head": 0.6}, "10.0 points less (one seed)"),
        ({"head": 0.73}, "no clear difference"),  # two standard errors are 4.0
        ({"received": 0.9, "head": 0.75}, "5.0 points more"),
        ({"global": 0.9}, "no prediction rule in common"),
        ({"head": None}, "Mine or Local has no accuracy after its last round"),
    ]
)
def test_a_run_is_compared_by_a_rule_that_both_have(accuracies, said):
    runs = {"Local": summary(head=0.7), "Mine": summary(**accuracies)}
    line = finding.sentence(runs, "Mine", "Local")
    assert line.startswith("found: ") and said in line and "\n" not in line
