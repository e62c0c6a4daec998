"""Federated averaging beside other frameworks, as far as it needs none of them."""

import importlib
import json
from unittest import mock

import jax
import numpy as np
import pytest

from benchmarks.peers import __main__ as peers
from benchmarks.peers import jax_side, ours, prepare, shared
from jaxproto import models

pytestmark = pytest.mark.long

SIZES = {"clients": 6, "cohort": 2, "images": 25, "test": 60}
FLAGS = [f"--{name}={value}" for name, value in SIZES.items()]


@pytest.fixture(autouse=True)
def networks():
    """Afterwards there are those that were there before."""
    with mock.patch.dict(models.NETS):
        yield


def made(folder, workload, **other):
    """The file of a small federation."""
    settings = prepare.WORKLOADS[workload]._asdict()
    settings |= {**SIZES, "rounds": 3, "data": "", **other}
    path = folder / "federation.npz"
    prepare.images(path, settings)
    prepare.complete(str(path), settings)
    return path


def test_ours_trains_the_clients_of_the_file(tmp_path, monkeypatch, capsys):
    path, seen = made(tmp_path, "logistic"), []
    next_state = ours.rounds.next_state

    def spied(work, r, state):
        state, told = next_state(work, r, state)
        seen.append(np.flatnonzero(told.bytes_by_client["up"]).tolist())
        return state, told

    monkeypatch.setattr(ours.rounds, "next_state", spied)
    ours.main(str(path))
    assert seen == shared.load(path).cohorts.tolist()
    seconds, last = shared.read("noise\n[1]\n" + capsys.readouterr().out)
    assert len(seconds) == 3 and min(seconds) > 0
    assert 0 <= last["accuracy"] <= 1 and last["peak_bytes"][0] > 2**20


def fedjax(fed, x):
    return jax_side.logits(jax_side.parameters(fed), x)


def pytorch(fed, x):
    torch = pytest.importorskip("torch")
    torch_side = importlib.import_module("benchmarks.peers.torch_side")
    with torch.no_grad():
        return torch_side.network(fed)(torch_side.images(x)).numpy()


@pytest.mark.parametrize("logits", [fedjax, pytorch])
@pytest.mark.parametrize("workload", ["cifar", "logistic"])
def test_other_frameworks_start_with_our_network(tmp_path, workload, logits):
    """That of before round 1; the CNN has the parameters of the paper."""
    fed, work = shared.load(made(tmp_path, workload)), prepare.WORKLOADS[workload]
    net = models.build(
        work.network,
        input_shape=work.shape,
        num_classes=prepare.CLASSES,
        feat_dim=fed.start[-2].shape[1],
    )
    params, norm = net.init(prepare.programs.keys(prepare.SEED)[1])
    x = fed.test_x[:8]
    want = net.apply(params, norm, shared.decode(x), False).logits
    np.testing.assert_allclose(logits(fed, x), want, atol=1e-4)
    if workload == "cifar":
        leaves = jax.tree.leaves(jax_side.parameters(fed))
        sizes = [sum(a.size for a in some) for some in (fed.start, leaves)]
        assert sizes == [878_538, 878_538]


def test_one_contender_is_measured_and_written(tmp_path):
    out = tmp_path / "out.json"
    flags = ["--workload=logistic", "--contenders=ours", "--rounds=2", "--repeats=1"]
    peers.main(["peers", f"--out={out}", *FLAGS, *flags])
    record = json.loads(out.read_text())
    found = record["results"]["contenders"]["ours"]
    assert len(found["round"]["seconds"]) == 2  # the first of three does not count
    rate = 2 * 20 / found["round"]["median"]
    assert found["images_per_second"] == pytest.approx(rate)
    assert found["peak_bytes_of_all"] >= found["peak_bytes"] > 2**20
    assert found["versions"]["jax"] == jax.__version__
    assert record["results"]["workload"]["clients"] == 6


def test_what_cannot_run_ends_in_words(tmp_path):
    for flag, why in {
        "--contenders=tff": "they are ours, pfl, fedjax, flower",
        "--contenders=ours,pfl": r"pfl: no environment in .* --install",
        "--cohort=7": "--cohort=7 of --clients=6",
        "--images=9": "a whole batch",
        "--data=none.npz": "none.npz",
    }.items():
        given = [*FLAGS, f"--venvs={tmp_path}", "--contenders=ours", flag]
        with pytest.raises(SystemExit, match=f"error: .*{why}"):
            peers.main(["peers", "--workload=logistic", *given])
