"""jaxproto beside PyTorch: what differs first is named, with and without PyTorch."""

import functools
import json

import numpy as np
import pytest
from support.every import check_every, every

from benchmarks import measure
from benchmarks.parity import __main__ as parity
from benchmarks.parity import compare, record, rules, views
from jaxproto.core.types import Spec
from jaxproto.errors import UserError

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it

SETTINGS = {name: parity.FLAGS[name].default for name in parity.FLAGS}
SETTINGS |= {"group": "mlp", "rounds": 2, "clients": 2, "most": 60, "rate": 0.05}


def configuration(method, **changed):
    return parity.configuration(method, SETTINGS | changed)


@functools.cache
def both(method, **changed):
    return parity.Comparison(method, SETTINGS | changed)


def one(ours, theirs, exact=None, quantity=record.MEAN):
    exact = theirs if exact is None else exact
    three = [{quantity: {"server": np.asarray(v)}} for v in (ours, theirs, exact)]
    return compare.one_round(1, {}, *three)[0]


JUMP, NAN, INF = np.ones((5, 2)), np.nan, np.inf
JUMP[2, 1] += 0.5
FINDINGS = [  # ours, theirs, quantity, whether it is out of tolerance
    (1.0, 1.001, record.MEAN, True),
    (1.0, 1.0 + 1e-7, record.MEAN, False),
    ([3, 4], [3, 5], record.BATCHES, True),  # batches are equal or not
    ([1.0, NAN], [1.0, 2.0], record.MEAN, True),  # a prototype of one side only
    ([-INF, 0.0], [-9.0, 0.0], record.MEAN, True),
    ([1.0, 2.0], [1.0], record.MEAN, True),  # other shapes
    (np.ones((5, 2)), JUMP, record.STEP, False),  # in one step of five
]


def test_what_is_out_of_tolerance():
    """Or in it, as rounding moves as far (the last of the three given)."""

    def check(ours, theirs, quantity, out):
        assert one(ours, theirs, quantity=quantity).out == out

    check_every(FINDINGS, check)
    assert not one(1.0, 1.001, 1.0003).out and one(1.0, 1.001, 1.00105).out


def test_what_is_no_mistake_and_what_is_not_supported_are_named(monkeypatch):
    right = rules.of(configuration("protonorm"), Spec(10, 64))
    for mistake, words in (
        ("lamb=5", r"'lamb'.*Did you mean 'lam'"),
        ("lam=much", "lam is a number"),
        ("aggregate=sum", "as_printed"),
    ):
        with pytest.raises(UserError, match=words):
            rules.mistaken(right, [mistake])
    config = configuration("fedproto")
    config.participation.law = "uniform"
    with pytest.raises(UserError, match=r"participation.law is 'uniform'.*'all'"):
        rules.of(config, Spec(10, 64))
    monkeypatch.setattr(measure, "has_torch", lambda: False)
    with pytest.raises(SystemExit, match=r"^error: .*pip install torch$"):
        parity.main(["parity"])


COMPARED = [
    ("local", {}),
    ("fedproto", {}),
    ("protonorm", {}),
    ("fedproto", {"reg": "l2_of_means", "lam": 1.0}),
    ("protonorm", {"group": "cnn4_d,resnet4", "epochs": 2}),
    ("fedtgp", {}),
    ("tinyproto_fp", {}),
    ("tinyproto_ft", {}),
    ("cps", {}),
    ("ppa", {}),
    ("cpkd", {}),
    ("cpkd", {"reg": "l2_of_means", "lam": 1.0}),
    ("refprotofl", {}),
]


@every(COMPARED)
def test_jaxproto_and_pytorch_agree_in_every_stage(method, changed):
    pytest.importorskip("torch")
    compared = both(method, **changed)
    assert str(compare.first(compared.stages())) == "None"
    alone = views.results(compared.ours, compared.alone(), compared.tested)
    for row in alone:
        ours, theirs = row["jaxproto"], row["PyTorch"]
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)
        assert ours["head"] == pytest.approx(theirs["head"], abs=0.02)


MISTAKES = [
    ("local", "rate=0.05005", 1, record.STEP),
    ("local", "order=fixed", 1, record.BATCHES),
    ("fedproto", "lam=10.01", 2, record.FIRST),
    ("fedproto", "reg=l2_of_means", 2, record.FIRST),
    ("fedproto", "collect=before_training", 1, record.LOCAL),
    ("fedproto", "collect=train_pass", 1, record.LOCAL),
    ("fedproto", "aggregate=as_printed", 1, record.MEAN),
    ("fedproto", "aggregate=mean_over_examples", 1, record.MEAN),
    ("protonorm", "iterations=0", 1, record.ITERATIONS),
    ("protonorm", "upscale=10.01", 1, "scores, global"),
    ("refprotofl", "anchors=own", 1, record.ANCHORS),
]


@pytest.mark.parametrize("network", rules.BATCH_NORM)
def test_networks_with_batch_norm_agree_with_pytorch(network):
    """And with ResNets at a rate at which their statistics drift in a round."""
    pytest.importorskip("torch")
    compared = both("local", group=network, rounds=1, most=20)
    assert str(compare.first(compared.stages())) == "None"
    for mistake in parity.MISTAKES["batch_norm"]:
        assert compare.first(compared.stages([mistake])), mistake


@every(MISTAKES)
def test_a_mistake_in_pytorch_is_named_by_what_it_changes_first(
    method, mistake, round, quantity
):
    pytest.importorskip("torch")
    first = compare.first(both(method).stages([mistake]))
    assert (first.round, first.quantity) == (round, quantity)


@every([row for row in parity.ROWS if row not in parity.METHODS])
def test_every_mistake_of_the_table_is_found(row):
    pytest.importorskip("torch")
    assert len(parity.MISTAKES[row]) >= 5
    compared = both(row, most=100, clients=4)  # of different sizes
    for mistake in parity.MISTAKES[row]:
        assert compare.first(compared.stages([mistake])), mistake


def test_the_command_writes_both_sides_and_ends_with_a_status(tmp_path, capsys):
    pytest.importorskip("torch")
    flags = [f"--{k}={v}" for k, v in SETTINGS.items() if k in ("clients", "most")]
    flags += ["--rounds=2", "--group=mlp", "--method=fedproto", f"--out={tmp_path}/a"]
    parity.main(["parity", *flags, "--perturb=lam=5"])
    assert "fedproto: round 2, loss of the first step" in capsys.readouterr().out
    (made,) = json.loads((tmp_path / "a").read_text())["results"]["methods"]
    assert made["first"]["quantity"] == record.FIRST and len(made["rounds"]) == 2
    with pytest.raises(SystemExit) as ended:
        parity.main(["parity", *flags, "--method=local", "--perturb=lam=5"])
    assert ended.value.code == 1  # a mistake that nothing shows: Local has no pull
