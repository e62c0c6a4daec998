"""Federated averaging beside other frameworks, as far as it needs none of them."""

import importlib
import itertools
import json
from unittest import mock

import jax
import numpy as np
import pytest

from benchmarks import synthetic
from benchmarks.peers import __main__ as peers
from benchmarks.peers import htfe8, jax_side, ours, prepare, shared
from jaxproto import models

pytestmark = pytest.mark.long

SIZES = {"clients": 6, "cohort": 2, "images": 25, "test": 60}
FLAGS = [f"--{name}={value}" for name, value in SIZES.items()]


@pytest.fixture(autouse=True)
def networks():
    with mock.patch.dict(models.NETS):
        yield


def made(folder, workload, **other):
    settings = prepare.WORKLOADS[workload]._asdict()
    settings |= {**SIZES, "rounds": 3, "data": "", **other}
    path = folder / "federation.npz"
    prepare.images(path, settings)
    prepare.complete(str(path), settings)
    return path


def test_ours_trains_the_clients_of_the_file(tmp_path, monkeypatch):
    path, seen = made(tmp_path, "logistic"), []
    next_state = synthetic.engine.next_state

    def spied(work, r, state):
        state, told = next_state(work, r, state)
        seen.append(np.flatnonzero(told["bytes_by_client"]["up"]).tolist())
        return state, told

    monkeypatch.setattr(synthetic.engine, "next_state", spied)
    ours.main(str(path))
    assert seen == shared.load(path).cohorts.tolist()


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
    """Checks logits before round 1; the CNN has the parameters of the paper."""
    fed, work = shared.load(made(tmp_path, workload)), prepare.WORKLOADS[workload]
    sizes = {"num_classes": prepare.CLASSES, "feat_dim": fed.start[-2].shape[1]}
    net = models.build(work.network, input_shape=work.shape, **sizes)
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


@pytest.fixture
def different_networks(tmp_path):
    """The file of three clients of the workload htfe8, but with small networks."""
    work = htfe8.Workload("mlp,cnn4", classes=10, clients=3, images=300, feat_dim=16)
    path = tmp_path / "federation.npz"
    more = {"method": "fedproto", "rounds": 2, "data": "", "venvs": ""}
    htfe8.write(str(path), {**work._asdict(), **more})
    return path


def test_ours_says_the_accuracy_of_every_round(different_networks, capsys):
    htfe8.main(str(different_networks))
    seconds, last = shared.read("noise\n[1]\n" + capsys.readouterr().out)
    assert len(seconds) == 2 and min(seconds) > 0
    assert [line["round"] for line in last["rounds"]] == [1, 2]
    assert last["accuracy"] == last["rounds"][-1]["pooled"] > 0


def test_htfllib_reads_our_partition(different_networks, tmp_path):
    pytest.importorskip("torch")
    theirs = importlib.import_module("benchmarks.peers.with_htfllib")
    theirs.write_clients(str(different_networks), tmp_path / "data")
    every = 0
    clients = htfe8.clients_file(str(different_networks))
    with np.load(different_networks) as images, np.load(clients) as f:
        for part, k in itertools.product(("train", "test"), range(3)):
            file = tmp_path / "data" / part / f"{k}.npz"
            data = np.load(file, allow_pickle=True)["data"].tolist()
            rows = f[f"{part}_{k}"]
            assert np.array_equal(data["y"], images["y_train"][rows])
            assert data["x"].shape == (len(rows), 3, 32, 32)
            assert -1 <= data["x"].min() < data["x"].max() <= 1
            every += len(rows)
    assert every == 300


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
