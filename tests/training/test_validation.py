"""Validation examples: every form of a run evaluates them, and none trains on them."""

import jax
import numpy as np
import pytest
from rich.console import Console
from support import quick
from support.refusal import refused

import jaxproto
from jaxproto import config
from jaxproto.storage import records
from jaxproto.sweeps import SweepOptions, sweep

QUIET = Console(quiet=True)
PART = {"participation.law": "uniform", "participation.fraction": 0.5}
quick_runs = quick.quick_runs


def small(method="fedproto", **fields):
    c = config.experiment(method, "digits")
    c.update_from_flattened_dict(
        {
            "data.clients": 6,
            "data.validation_share": 0.2,
            "model.group": "mlp",
            "rounds": 2,
            "eval_every": 1,
            **fields,
        }
    )
    return c


def check(path):
    """The last record has what a program of its own finds on the validation rows."""
    last, run = records.read(path / "metrics.jsonl")[-1], jaxproto.load(path)
    assert run.evaluate(part="validation") == last["validation"]
    assert run.evaluate() == last["rules"] != last["validation"]


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("fedproto", {"model.group": "mlp,cnn4_d"}),
        ("fedproto", PART | {"clients.store": "host", "eval.clients": "5"}),
        ("fedavg", PART),  # clients keep nothing: each example is evaluated once
        ("fedavg", PART | {"eval.metrics": "loss"}),  # or each set of examples
    ],
)
def test_a_run_evaluates_validation_examples(method, fields, tmp_path):
    summary = jaxproto.run(small(method, **fields), tmp_path, QUIET)
    check(tmp_path)
    rows = records.read(tmp_path / "metrics.jsonl")
    for rule, digest in summary["rules"].items():
        best = max(rows, key=lambda row: row["validation"][rule]["pooled"])
        assert digest["pooled"]["best"] == best["rules"][rule]["pooled"]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"data.name": "nodes"}, "nodes keep their own"),
        ({"data.centralised": True}, "data.centralised leaves one client to train"),
        (
            {"data.validation_share": 0.001},
            "no client that is evaluated",
        ),
    ],
)
def test_what_cannot_be_validated_is_refused_before_training(fields, why, tmp_path):
    with refused(why):
        jaxproto.run(small(**fields), tmp_path, QUIET)


def test_the_cells_of_a_sweep_evaluate_validation_examples(tmp_path):
    axes = {"method.lam": [0.1, 1.0]}
    done = sweep(small(), axes, tmp_path, QUIET, SweepOptions("2"))  # one program
    for cell in done.plan.cells:
        check(cell.path)


def test_training_and_test_are_those_of_a_run_without_the_validation_rows(tmp_path):
    """To the bit: its partition is a file that lacks their lines."""
    held, file = tmp_path / "held", tmp_path / "rest.csv"
    jaxproto.run(small(), held, QUIET)
    lines = (held / "indices.csv").read_text().splitlines()
    rest = [line for line in lines if not line.endswith("validation")]
    assert len(lines) > len(rest)
    file.write_text("\n".join(rest))
    fields = {"data.validation_share": 0.0, "data.partition": f"file:{file}"}
    jaxproto.run(small(**fields), tmp_path / "rest", QUIET)
    with_them, without = (
        records.read(tmp_path / name / "metrics.jsonl") for name in ("held", "rest")
    )
    for one, other in zip(with_them, without, strict=True):
        del one["seconds"], one["validation"], other["seconds"]
        assert one == other
    ours, theirs = (jaxproto.load(tmp_path / name) for name in ("held", "rest"))
    for mine, other in zip(ours.clients, theirs.clients, strict=True):
        np.testing.assert_array_equal(*map(flat, (mine.params, other.params)))
    assert ours.partition.validation.sum() == len(lines) - len(rest)


def flat(tree):
    return np.concatenate([np.ravel(a) for a in jax.tree.leaves(tree)])


def test_a_saved_partition_gives_the_same_validation_rows(tmp_path):
    jaxproto.run(small(rounds=1), tmp_path / "a", QUIET)
    file = tmp_path / "a" / "indices.csv"
    again = small(rounds=1, **{"data.partition": f"file:{file}"})
    jaxproto.run(again, tmp_path / "b", QUIET)
    assert (tmp_path / "b" / "indices.csv").read_bytes() == file.read_bytes()


def test_a_centralised_network_is_tested_by_every_client(tmp_path):
    c = config.experiment("fedavg", "digits,centralised")
    c.update_from_flattened_dict({"data.clients": 6, "model.group": "mlp", "rounds": 2})
    summary = jaxproto.run(c, tmp_path, QUIET)
    run = jaxproto.load(tmp_path)
    assert run.partition.train[1:].sum() == 0 < run.partition.test.sum(1).min()
    assert summary["rules"]["received"]["pooled"]["final"] > 0.5
    np.testing.assert_allclose(
        *map(flat, (run.server, run.clients[0].params)), rtol=1e-5, atol=1e-7
    )
