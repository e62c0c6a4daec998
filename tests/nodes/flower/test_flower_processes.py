"""Federations as real processes of Flower, and what happens to some of them."""

import signal
import subprocess

import pytest

pytest.importorskip("flwr")

from support.federated import assert_the_same, finished, metrics, rounds
from support.processes import until
from support.refusal import refused
from support.simulated import simulated, small

from jaxproto.experiment import build
from jaxproto.io import atomic
from jaxproto.nodes.deployment import certificates, deployment
from jaxproto.nodes.deployment.deployment import Deployment, terminate_tree
from jaxproto.nodes.flower.server_run import FAULTS
from jaxproto.storage import checkpoint, records

pytestmark = pytest.mark.long

DAMAGE = '''"""Client 1 waits for its turn to train, and damages its first upload."""

import time
from pathlib import Path


def damage(message, context, call):
    told, mine = message.content["jaxproto"], context.node_config["client"] == 1
    while mine and told.get("round", 0) > int(Path({file!r}).read_text()):
        time.sleep(0.1)
    reply = call(message, context)
    if reply.has_content() and mine and told.get("round") == 0:
        said = reply.content["jaxproto"]
        if "loss" in said:
            said["up"] = said["up"][:-1] + bytes([said["up"][-1] ^ 1])
    return reply
'''


def connected(there, client):
    return "SuperNode ID" in there.log(f"node-{client}").read_text()


def start(there, *clients):
    """Starts SuperNodes, and waits until they are known to the SuperLink."""
    for client in clients:
        there.start_node(client)
    for client in clients:
        until(lambda c=client: connected(there, c), there.nodes[client])


def test_killed_late_and_damaged_clients_cost_what_was_theirs_alone(tmp_path):
    last = tmp_path / "last"  # round, from 0, that client 1 takes part in
    c = small(rounds=5)
    atomic.write(last, b"0")
    with Deployment(c, tmp_path / "run", wait=1.0, patience=90.0) as there:
        there.add_mod("damage", DAMAGE.format(file=str(last)))
        there.start_superlink()
        start(there, 0, 1)
        submitted = there.run()
        until(lambda: 1 in rounds(there.path), submitted)
        start(there, 2)  # late
        atomic.write(last, b"2")
        until(lambda: metrics(there.path)[-1]["participants"] == 3, submitted)
        killed = rounds(there.path)[-1] + 1
        terminate_tree(there.nodes[0], signal.SIGKILL)  # in a round
        atomic.write(last, b"9")
        until(lambda: finished(there.path), submitted)
        terminate_tree(submitted)
    found = records.read(there.path / FAULTS)
    refused = [f for f in found if "refused" in f["why"]]
    assert [(f["round"], f["client"]) for f in refused] == [(1, 1)]
    assert all(f["client"] == 0 for f in found if f["round"] >= killed)
    assert any(f["client"] == 0 for f in found if f["round"] >= killed)
    assert rounds(there.path) == [1, 2, 3, 4, 5]


def test_a_killed_server_goes_on_where_it_was(tmp_path):
    c = small(rounds=3)
    simulated(c, tmp_path / "simulated")
    with Deployment(c, tmp_path / "run", wait=60.0, patience=120.0) as there:
        there.start_superlink()
        start(there, 0, 1, 2)
        first = there.run()
        until(lambda: checkpoint.rounds(there.path / "checkpoints"), first)
        terminate_tree(there.superlink, signal.SIGKILL)
        terminate_tree(first)
        assert not finished(there.path)
        before = records.read(there.path / "metrics.jsonl")[0]
        there.start_superlink()
        second = there.run()
        until(lambda: finished(there.path), second)
        terminate_tree(second)
        assert all(node.poll() is None for node in there.nodes.values())
    assert records.read(there.path / "metrics.jsonl")[0] == before  # seconds too
    assert_the_same(there.path, tmp_path / "simulated")


def test_a_deployment_that_fails_does_not_return_an_earlier_summary(
    tmp_path, monkeypatch
):
    simulated(small(rounds=1), tmp_path)
    with refused("holds a run of a different configuration"):
        deployment.deploy(small(rounds=1, seed=1), tmp_path)
    assert not (tmp_path / "app").exists()
    for name in ("start_superlink", "start_node"):
        monkeypatch.setattr(Deployment, name, lambda *_: None)
    monkeypatch.setattr(Deployment, "run", lambda _: subprocess.Popen("false"))
    with refused("the run has not finished; see"):
        deployment.deploy(small(), tmp_path)
    with refused("ca.crt exists; delete it first"):
        certificates.make(tmp_path / "flower/certificates")


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        pytest.param(
            "protonorm", {"model.group": "mlp,cnn4_d"}, marks=pytest.mark.landing
        ),
        ("tinyproto", {"model.group": "digits", "wire.up": "int8"}),
    ],
)
def test_a_deployment_of_several_networks_has_the_records_of_the_simulator(
    method, changes, tmp_path
):
    c = small(method, **changes)
    simulated(c, tmp_path / "simulated")
    summary = deployment.deploy(c, tmp_path / "run", wait=120.0, patience=300.0)
    assert summary["status"] == "finished" and rounds(tmp_path / "run") == [1, 2]
    assert len(build.experiment(c, "cpu").cohorts) > 1
    assert_the_same(tmp_path / "run", tmp_path / "simulated")
