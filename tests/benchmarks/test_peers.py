"""Federated averaging beside other frameworks, as far as it needs none of them."""

import importlib
import json
import sys
from unittest import mock

import jax
import numpy as np
import pytest

from benchmarks.peers import __main__ as peers
from benchmarks.peers import environments, jax_side, ours, prepare, processes, shared
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


def test_clients_have_images_of_their_own_and_rounds_different_clients(tmp_path):
    fed = shared.load(made(tmp_path, "logistic"))
    assert sorted(fed.clients.ravel()) == list(range(6 * 25)) == list(range(len(fed.x)))
    assert len(fed.test_x) == len(fed.test_y) == 60
    assert fed.cohorts.shape == (3, 2)
    assert all(len({*cohort}) == 2 for cohort in fed.cohorts.tolist())
    assert len({tuple(cohort) for cohort in fed.cohorts.tolist()}) > 1
    rows = shared.epoch(fed, 3, np.random.default_rng(0))
    assert len({*rows}) == 20 and {*rows} < {*fed.clients[3]}


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


def test_images_are_made_up_to_be_told_apart_or_given(tmp_path):
    x, y = prepare.made_up(400, (32, 32, 1))
    again, _ = prepare.made_up(400, (32, 32, 1))
    assert np.array_equal(x, again) and np.bincount(y).tolist() == [40] * 10
    x = x.reshape(400, -1).astype(float)
    mean = np.stack([x[:200][y[:200] == c].mean(0) for c in range(10)])
    near = ((x[200:, None] - mean) ** 2).sum(-1).argmin(1)
    assert (near == y[200:]).mean() > 0.5
    x, file = (
        np.arange(3 * 16, dtype=np.uint8).reshape(3, 4, 4, 1),
        tmp_path / "own.npz",
    )
    np.savez(file, x=x, y=np.array([[0], [1], [2]]))
    taken = prepare.given(file, 2, (4, 4, 1))
    assert np.array_equal(taken[0], x[:2]) and taken[1].tolist() == [0, 1]
    with pytest.raises(ValueError, match=r"3 images .* but 4 are needed"):
        prepare.given(file, 4, (4, 4, 1))
    with pytest.raises(ValueError, match=r"uint8 \[3, 4, 4, 1\]; .* 28, 28, 1"):
        prepare.given(file, 2, (28, 28, 1))
    np.savez(file, images=x)
    with pytest.raises(ValueError, match="lacks x, y"):
        prepare.given(file, 2, (4, 4, 1))


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


def test_programs_that_fail_or_are_not_installed_are_named_and_peaks_count_children(
    capsys, tmp_path
):
    for program, limit, words in (
        ("print('why'); raise SystemExit(3)", 60, "ended with status 3"),
        ("import time; time.sleep(60)", 0.2, r"took more than 0\.2 s"),
    ):
        with pytest.raises(processes.Unfinished, match=words):
            processes.output([sys.executable, "-c", program], limit)
    assert "why" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no accuracy"):
        shared.read(json.dumps({"round": 1, "seconds": 2.0}))
    child = (
        "import subprocess, sys; from benchmarks.peers import shared\n"
        "other = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=-1)\n"
        "print(len(shared.peaks())); other.communicate(b'x')"
    )
    said = processes.output([sys.executable, "-c", child], 60)
    assert int(said) == (2 if sys.platform == "linux" else 1)
    (tmp_path / "pfl" / "bin").mkdir(parents=True)
    assert environments.absent(tmp_path, ["ours", "pfl"]) == ["pfl"]
    environments.marker(tmp_path, "pfl").write_text("pfl\n")
    assert environments.absent(tmp_path, ["ours", "pfl"]) == []
