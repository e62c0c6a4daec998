"""Validation examples: every form of a run evaluates them, and none trains on them."""

import jax
import numpy as np
import pytest
from support import attacked
from support.refusal import refused

import jaxproto
from jaxproto.experiment import build
from jaxproto.storage import records
from jaxproto.summary import run_summary

quick_runs = attacked.quick_runs  # a fixture of all tests here
PART = {"participation__law": "uniform", "participation__fraction": 0.5}
SAMPLE = {"clients__store": "host", "eval__clients": "5"}
FEW = {**PART, "participation__fraction": 0.2}  # so that not all may take part


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Makes configurations of six clients with validation examples."""
    file = attacked.data(tmp_path_factory.mktemp("data") / "toy.npz")
    six = {"data__clients": 6, "data__validation_share": 0.2, "rounds": 2}
    six["data__partition"] = "iid"

    def make(method="fedproto", **fields):
        return attacked.small(method, file, **six | fields)

    return make


def check(path):
    """The last record has what a program of its own finds on the validation rows."""
    last, run = records.read(path / "metrics.jsonl")[-1], jaxproto.load(path)
    assert run.evaluate(part="validation") == last["validation"]
    assert run.evaluate() == last["rules"] != last["validation"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("fedproto", {"model__group": "mlp,amazon_mlp"} | FEW | SAMPLE),
        ("fedavg", PART),  # clients keep nothing: each example is evaluated once
        ("fedavg", PART | {"eval__metrics": "loss"}),  # or each set of examples
    ],
)
def test_a_run_evaluates_validation_examples(small, method, fields, tmp_path):
    attacked.run(small(method, **fields), tmp_path)
    check(tmp_path)
    rows = records.read(tmp_path / "metrics.jsonl")
    for rule, digest in jaxproto.load(tmp_path).summary["rules"].items():
        best = max(rows, key=lambda row: row["validation"][rule]["pooled"])
        assert digest["pooled"]["best"] == best["rules"][rule]["pooled"]


def test_what_cannot_be_validated_is_refused_before_training(small, tmp_path):
    for fields, why in (
        ({"data__name": "nodes"}, "nodes keep their own"),
        ({"data__centralised": True}, "data.centralised leaves one client to train"),
        ({"data__validation_share": 0.001}, "no client that is evaluated"),
    ):
        with refused(why):
            attacked.run(small(**fields), tmp_path)


@pytest.mark.long
def test_training_and_test_are_those_of_a_run_without_the_validation_rows(
    small, tmp_path
):
    """To the bit: its partition is a file that lacks their lines."""
    held, file = tmp_path / "held", tmp_path / "rest.csv"
    attacked.run(small(), held)
    text = (held / "indices.csv").read_text()
    rest = [line for line in text.splitlines() if not line.endswith("validation")]
    lost = len(text.splitlines()) - len(rest)
    file.write_text("\n".join(rest))
    fields = {"data__validation_share": 0.0, "data__partition": f"file:{file}"}
    attacked.run(small(**fields), tmp_path / "rest")
    with_them, without = (attacked.end(tmp_path / name) for name in ("held", "rest"))
    for row in with_them[0]:
        del row["validation"]
    assert with_them == without
    assert jaxproto.load(held).partition.validation.sum() == lost > 0
    again = small(data__partition=f"file:{held / 'indices.csv'}")
    run_summary.save_partition(build.experiment(again, "cpu"), tmp_path)
    assert (tmp_path / "indices.csv").read_text() == text  # whose rows are those


def flat(tree):
    return np.concatenate([np.ravel(a) for a in jax.tree.leaves(tree)])


@pytest.mark.long
def test_a_centralised_network_is_tested_by_every_client(small, tmp_path):
    whole = {"data__centralised": True, "data__validation_share": 0.0}
    whole |= {"local__epochs": 5, "optimizer__learning_rate": 0.1}
    attacked.run(small("fedavg", **whole), tmp_path)
    run = jaxproto.load(tmp_path)
    assert run.partition.train[1:].sum() == 0 < run.partition.test.sum(1).min()
    assert run.summary["rules"]["received"]["pooled"]["final"] > 0.5
    np.testing.assert_allclose(
        *map(flat, (run.server, run.clients[0].params)), rtol=1e-5, atol=1e-7
    )
