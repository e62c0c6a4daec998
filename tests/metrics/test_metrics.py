"""Metrics: against scikit-learn, in the compiled evaluation, in the files of a run."""

import warnings
from functools import partial
from itertools import product

import jax
import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from sklearn import calibration
from sklearn import metrics as theirs
from support import quick, runs
from support.every import every
from support.fast_jit import jit
from support.refusal import refused

from jaxproto import config, evaluation, metrics
from jaxproto.metrics import METRICS, Metric, metric, metrics_by_name
from jaxproto.metrics import auc as ranks
from jaxproto.metrics.shape_check import check_metric
from jaxproto.storage import records
from jaxproto.summary import metric_record

C = 5


def drawn(scale=2.0, examples=240, classes=range(C), seed=0):
    """Scores that know something of the class; labels of `classes` alone."""
    rng = np.random.default_rng(seed)
    y = rng.choice(list(classes), examples)
    scores = rng.normal(size=(examples, C)) + 0.8 * np.eye(C)[y]
    return (scale * scores).astype(np.float32), y


def without_prototype():
    """One class has no score, of any example; others of some have none."""
    scores, y = drawn(seed=1)
    scores[:, 1] = scores[::7, 4] = -np.inf
    return scores, y


CASES = {
    "all": drawn(),
    "absent": drawn(classes=(0, 2, 3)),  # labels of three classes of five
    "without_prototype": without_prototype(),
}


def summed(name, scores, y, mask=None, batch=80):
    mask = np.ones(len(y)) if mask is None else mask
    sums = jax.jit(METRICS[name].sums)
    at = range(0, len(y), batch)
    given = (scores, y.astype(np.int32), mask.astype(np.float32))
    parts = [sums(*(a[i : i + batch] for a in given)) for i in at]
    return jax.tree.map(lambda *a: np.asarray(sum(a)), *parts)


def value(name, *given):
    return metrics.values(metrics_by_name(name)[-1], summed(name, *given))


def their_ece(scores, y):
    p = softmax(scores.astype(np.float64), -1)
    right, stated = p.argmax(-1) == y, p.max(-1)
    true, said = calibration.calibration_curve(right, stated, n_bins=15)
    count = np.histogram(stated, np.linspace(0, 1, 16))[0]
    return np.abs(true - said) @ count[count > 0] / len(y)


def their_areas(scores, y):
    """Returns scikit-learn's area of every class that has examples and is not alone."""
    score = scores.astype(np.float64)
    found = []
    for c in np.unique(y):
        rest = logsumexp(np.delete(score, c, 1), axis=1)
        odds = np.maximum(score[:, c] - rest, -1e9)  # for those without a score
        found.append(theirs.roc_auc_score(y == c, odds))
    return found


def their_balanced(scores, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a predicted class without examples
        return theirs.balanced_accuracy_score(y, scores.argmax(-1))


THEIRS = {
    "accuracy": lambda s, y: theirs.accuracy_score(y, s.argmax(-1)),
    "loss": lambda s, y: theirs.log_loss(y, softmax(s, -1), labels=range(C)),
    "balanced_accuracy": their_balanced,
    "macro_f1": lambda s, y: theirs.f1_score(
        y, s.argmax(-1), average="macro", zero_division=0
    ),
    "ece": their_ece,
}


@every([*product(THEIRS, CASES)])
def test_a_metric_is_that_of_scikit_learn(name, case):
    want = THEIRS[name](*CASES[case])
    assert value(name, *CASES[case])[name] == pytest.approx(want, rel=1e-5)


def tied(count_C2N):
    """Half the share of pairs in one bin, the most that the area can be wrong."""
    other, own = np.moveaxis(np.asarray(count_C2N, float), 1, 0)
    pairs = own.sum(-1) * other.sum(-1)
    return ((own * other).sum(-1)[pairs > 0] / pairs[pairs > 0] / 2).mean()


@every(CASES)
def test_every_class_and_the_area_but_for_ties_in_a_bin_are_those_of_scikit_learn(case):
    scores, y = CASES[case]
    options = {"labels": range(C), "zero_division": np.nan}
    want = theirs.precision_recall_fscore_support(y, scores.argmax(-1), **options)
    got = value("per_class", scores, y)
    for i, part in ((0, "precision"), (1, "recall"), (3, "support")):
        np.testing.assert_allclose(got[f"per_class_{part}"], want[i], rtol=1e-6)
    area, want = value("auc", scores, y)["auc"], np.mean(their_areas(scores, y))
    assert 0.5 < want < 1
    assert abs(area - want) <= tied(summed("auc", scores, y)) + 1e-9


@every([1e-4, 1.0, 10.0])
def test_the_area_is_as_good_at_any_scale_of_the_scores_and_log_odds_are_exact(scale):
    scores, y = drawn(scale, examples=2000, seed=3)
    sums = summed("auc", scores, y, None, 500)
    off = abs(ranks.auc_from_histogram(sums) - np.mean(their_areas(scores, y)))
    assert tied(sums) < 0.004 and off < 0.0002, (tied(sums), off)
    score = scores.astype(np.float64)
    others = [logsumexp(np.delete(score, c, 1), axis=1) for c in range(C)]
    want = score - np.stack(others, 1) + np.log(C - 1)
    got = np.asarray(jit(ranks.log_odds)(scores))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3 * scale)


def test_scores_that_are_none_are_at_the_ends_and_a_class_alone_has_no_area():
    inf = np.inf
    scores = np.array([[1.0, -inf, -inf], [-inf] * 3, [0.0, 0.0, -inf]])
    got = np.asarray(jit(ranks.log_odds)(scores))
    assert got[0, 0] > 1e20 and np.all(got[0, 1:] == -inf) and np.all(got[1] == -inf)
    assert got[2, 0] == got[2, 1] == pytest.approx(np.log(2))
    assert np.isnan(value("auc", *drawn(classes=[2]))["auc"])


@every(METRICS)
def test_examples_that_fill_a_batch_and_clients_without_examples_do_not_count(name):
    scores, y = without_prototype()
    mask = np.arange(len(y)) % 3 > 0
    a, b = summed(name, scores, y, mask), summed(name, scores[mask], y[mask])
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-5), a, b)
    parts = [summed(name, *drawn()), summed(name, *drawn(), np.zeros(240))]
    sums = jax.tree.map(lambda *a: np.stack(a), *parts)
    one = metrics_by_name(name)[-1]
    each, total = metrics.by_client(one, sums), metrics.pooled(one, sums)
    for part, value_K in each.items():
        np.testing.assert_allclose(value_K[0], total[part], rtol=1e-6)
        assert part.endswith("support") or np.all(np.isnan(value_K[1]))
        if total[part].ndim == 0:
            told = metric_record.summarize_metric(total[part], value_K)
            assert told["clients"] == 1 and told["mean"] == told["min"] == value_K[0]


def test_clients_of_equal_examples_are_evaluated_once():
    tests, same = evaluation.BY_EQUAL_CLIENTS.tests, [np.arange(100)] * 3
    assert tests([same]).index.shape == (1, 100)
    other = [np.array([3, 1]), np.array([7]), np.array([3, 1])]
    assert tests([other]).size.tolist() == [2, 1]
    assert evaluation.distinct(other)[1] == [0, 1, 0]


EVERY = ",".join(METRICS)
quick_runs = quick.quick_runs  # a fixture of all tests here


def measured_run(path, method="fedproto", **fields):
    """Records, summary and text of two rounds on the spirals."""
    fields = {"rounds": 2, "eval_every": 1, "data__clients": 4, **fields}
    summary, text = runs.run(runs.small(method, **fields), path)
    return records.read(path / "metrics.jsonl"), summary, text


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Folder, records, summary and text of a run with every metric."""
    path = tmp_path_factory.mktemp("measured") / "run"
    return path, *measured_run(path, eval__metrics=EVERY, eval__per_client=True)


def test_a_record_has_every_metric_of_every_rule_and_a_table_has_every_client(measured):
    path, found, *_ = measured
    singles = {*METRICS} - {"accuracy", "per_class"}
    parts = {f"per_class_{p}" for p in ("recall", "precision", "support")}
    for record in found:
        table = np.load(path / "per_client" / f"{record['round']:06}.npz")
        size_K = table["test_examples"]
        assert table["bytes_up"].tolist() == record["bytes_by_client"]["up"]
        assert list(record["metrics"]) == list(record["rules"])
        for rule, of in record["metrics"].items():
            assert {*of} == singles | parts
            for name in singles:
                assert {"pooled", "mean", "std", "min", "max"} <= {*of[name]}, rule
            right = table[f"correct_{rule}"].sum() / size_K.sum()
            assert right == pytest.approx(record["rules"][rule]["pooled"])
            loss_K = table[f"loss_{rule}"]
            assert np.nanmean(loss_K) == pytest.approx(of["loss"]["mean"])
            total = loss_K @ size_K / size_K.sum()
            assert total == pytest.approx(of["loss"]["pooled"], rel=1e-5)
            support_KC = table[f"per_class_support_{rule}"]
            assert np.all(support_KC.sum(1) == size_K)
            pooled_C = [*of["per_class_support"]["pooled"].values()]
            assert support_KC.sum(0).tolist() == pooled_C and len(pooled_C) > 1
        assert record["metrics"]["head"]["loss"]["pooled"] > 0


def test_the_summary_has_best_final_and_mean_of_the_last(measured):
    _, found, summary, text = measured
    loss = [r["metrics"]["head"]["loss"]["pooled"] for r in found]
    told, best = summary["metrics"]["head"], 1 + int(np.argmin(loss))
    last = {"final": loss[-1], "mean_last": pytest.approx(np.mean(loss)), "last_n": 2}
    wanted = {"best": min(loss), "best_round": best, **last}
    assert told["loss"]["pooled"] == wanted
    lines = text.partition("further metrics")[2].splitlines()
    table = [line for line in lines if "│" in line]
    (row,) = (line for line in table if {"head", "loss"} <= {*line.split()})
    assert f"{loss[-1]:.4f}" in row and max(map(len, table)) <= 80


def test_each_part_of_a_metric_is_best_where_the_metric_says():
    def best(least):
        gap = Metric(len, lambda sums: {"low": sums, "high": sums}, least, "gap")
        rows = [
            {"round": r, "metrics": {"head": {"gap_low": {"pooled": x, "mean": x}}}}
            for r, x in ((1, 3.0), (2, 1.0), (3, 2.0))
        ]
        told = metric_record.metric_summary(rows, [gap])
        return told["head"]["gap_low"]["pooled"]["best"]

    assert (best(least=True), best(least=False)) == (1.0, 3.0)


@pytest.mark.long
def test_a_network_that_serves_all_is_measured_as_those_of_clients(tmp_path):
    """Clients that keep nothing: by shards of their examples, not by hits."""
    half = {"participation__law": "uniform", "participation__fraction": 0.5}
    asked = {"data__clients": 6, "eval__metrics": EVERY, **half}
    (free,), (kept,) = (
        measured_run(tmp_path / s, "fedavg", rounds=1, clients__store=s, **asked)[0]
        for s in ("auto", "device")
    )
    assert list(free["metrics"]) == ["received"]
    assert free["rules"]["received"] == kept["rules"]["received"]
    a, b = (told["metrics"]["received"] for told in (free, kept))
    assert jax.tree.structure(a) == jax.tree.structure(b)  # null in the same places
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-4, atol=1e-5), a, b)


BROKEN = {
    "fails": (Metric(lambda s, y, m: s @ y[:2]), "fails on scores of shape (2, 5): "),
    "grows": (Metric(lambda s, y, m: (s * m[:, None],)), "return sums over the exam"),
    "nothing": (Metric(lambda s, y, m: ()), "returns () of 2 examples and () of 3"),
    "value": (Metric(lambda s, y, m: m.sum()), "fails where all sums are 0"),
    "matrix": (Metric(lambda s, y, m: s.T @ s, lambda a: a), "has shape (5, 5); it"),
    "no mask": (Metric(lambda s, y: (s.sum(), 1.0)), "takes 2 positional arguments"),
    "mask not used": (
        Metric(lambda s, y, m: ((s.argmax(1) == y).sum(), m.sum())),
        "mask 0, which fill a batch: 3 examples have sums 3, 3, and sums 4, 3 with 3",
    ),
    "length as count": (
        Metric(lambda s, y, m: ((s[:, 0] * m).sum(), len(y))),
        "counts examples with mask 0",
    ),
    "mean": (
        Metric(lambda s, y, m: (s[:, 0] @ m / m.sum(), 1.0)),
        "returns no sums over examples: 3 examples have sums",
    ),
    "one example": (
        Metric(lambda s, y, m: (m.sum() / (1 // (len(s) - 1) + 1), m.sum())),
        "fails on examples: ZeroDivisionError",
    ),
    "none": (
        Metric(lambda s, y, m: m.sum(), lambda a: None),
        "'none' is None where all sums",
    ),
    "none of some": (
        Metric(lambda s, y, m: m.sum(), lambda a: None if a else np.nan),
        "the value of metric 'none of some' is None on 3 examples; return a number",
    ),
}


def test_names_and_metrics_that_cannot_be_are_refused_before_training():
    for name in ("top 2", "a,b", ""):
        with refused("a metric cannot be named"):
            metric(name)
    with refused("unknown metric 'acu'. Did you mean 'auc'?"):
        config.check(runs.small(eval__metrics="macro_f1,acu"))
    assert len(metrics_by_name(" auc, auc,")) == 2
    for name, (broken, message) in BROKEN.items():
        with refused(message) as e:
            check_metric(Metric(broken.sums, broken.value, name=name), C)
        assert repr(name) in str(e.value) and "\n" not in str(e.value)
