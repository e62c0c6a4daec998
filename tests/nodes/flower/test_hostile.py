"""Every lie of one client is a line of faults, and its round is one without it."""

from pathlib import Path

import numpy as np
import pytest
from support import federated, hostile
from support.federated import Calls, both, metrics
from support.refusal import refused
from support.simulated import QUIET, small

from jaxproto.core.types import Protos
from jaxproto.nodes.flower import stack_uploads
from jaxproto.nodes.flower.accept import REFUSED, Limits, check_upload
from jaxproto.nodes.flower.protocol import Messages, experiment
from jaxproto.nodes.flower.server_run import run_server
from jaxproto.storage import records
from jaxproto.wire import codec


def test_a_prototype_of_a_class_that_a_client_does_not_have_is_refused():
    count_KC = np.array([[4, 0], [0, 6], [1, 0]])
    limits = Limits(1.0, count_KC.sum(1), count_KC.sum(1), count_KC, count_KC > 0)
    for disclosed, own in ((False, 1), (True, 4)):
        up = Protos(np.ones((2, 3)), np.array([own, 0]), disclosed)
        check_upload({"up": up}, limits, 0)
        with refused(f"has a prototype of class 0 with count {own}; client 1 has at"):
            check_upload({"up": up}, limits, 1)
    check_upload({"id": np.int32(2)}, limits, 2)  # above its number of examples
    with refused("values from 1 to 1; accepted are 2 to 2"):
        check_upload({"id": np.int32(1)}, limits, 2)  # of another client


def write_schemas(c, folder):
    folder.mkdir()
    exp = experiment(c)
    messages = Messages(exp, exp.cohorts)
    shapes = stack_uploads.upload_shapes(exp, messages.down_shapes)
    like = {"first": shapes.first, "train": shapes.up, "evaluate": shapes.sums[0]}
    for stage, tree in like.items():
        (folder / f"{stage}.schema").write_bytes(codec._schema(tree))


def check_lies(c, plan, path, names=()):
    """Asserts that a federation with the lies of a plan ends, as one that lost them."""
    schemas = path / "schemas"
    write_schemas(c, schemas)

    def lying(stage, r, i, fields):  # `Calls` counts rounds from 1
        return hostile.lied(plan, schemas, stage, r - 1, i, fields)

    link = Calls(c, path / "nodes", happens=lying)
    assert run_server(c, path / "lying", link, QUIET)["status"] == "finished"
    assert_refused(c, plan, path / "lying", path / "losing", names)


def assert_refused(c, plan, path, other, names=()):
    """Each lie is one fault; the records are those of a run that lost the messages."""
    faults = records.read(path / federated.FAULTS)
    found = {(f["stage"], f["round"], f["client"]): f["why"] for f in faults}
    assert len(faults) == len(plan) == len(found)
    for (stage, r, i), (_, words) in plan.items():
        why = found[stage, r if stage == "evaluate" else r + 1, i]
        assert words in why and why.isprintable() and len(why) < 5000

    def losing(stage, r, i, fields):
        return {REFUSED: "lost"} if (stage, r - 1, i) in plan else fields

    run_server(c, other, Calls(c, other / "nodes", happens=losing), QUIET)
    first, second = (
        [{k: r[k] for k in names or r} for r in metrics(one)] for one in (path, other)
    )
    assert first == second != []


@pytest.mark.long
@pytest.mark.parametrize(
    "method",
    [pytest.param("fedproto", marks=pytest.mark.landing), "fedavg", "refprotofl"],
)
def test_each_lie_is_one_fault_and_costs_what_a_lost_message_costs(method, tmp_path):
    plan = hostile.planned(method, [1, 2])
    check_lies(small(method, max(r for _, r, _ in plan) + 1), plan, tmp_path)


@pytest.mark.long
def test_an_upload_that_makes_the_server_infinite_is_left_out(tmp_path):
    why = "its upload makes the server's state infinite"
    plan = {("train", 1, 2): (hostile.number(3e38), why)}
    check_lies(small("fedavg", 3, wire__bound=3.4e38), plan, tmp_path, ["rules"])


LYING = '''"""What clients 1 and 2 say is what the plan has."""

import sys

sys.path.insert(0, {tests!r})

from flwr.app import ConfigRecord
from support import hostile

PLAN = hostile.planned("fedavg", [1, 2])


def lying(message, context, call):
    reply, told = call(message, context), message.content["jaxproto"]
    if reply.has_content() and "round" in told:
        at = told["stage"], told["round"], context.node_config["client"]
        fields = dict(reply.content["jaxproto"])
        said = hostile.lied(PLAN, {schemas!r}, *at, fields)
        reply.content["jaxproto"] = ConfigRecord(said)
    return reply
'''
TESTS = str(Path(__file__).parents[2])


@pytest.mark.long
def test_sixty_lies_in_a_deployment_are_sixty_faults_and_no_traceback(tmp_path):
    pytest.importorskip("flwr")
    from jaxproto.nodes.deployment import deployment

    plan, schemas = hostile.planned("fedavg", [1, 2]), tmp_path / "schemas"
    c = small("fedavg", max(r for _, r, _ in plan) + 1)
    write_schemas(c, schemas)
    assert len(plan) == 60
    times = {"wait": 120.0, "patience": 300.0}
    with deployment.Deployment(c, tmp_path / "run", **times) as there:
        there.add_mod("lying", LYING.format(tests=TESTS, schemas=str(schemas)))
        there.start_superlink()
        stranger = there._start(  # without a registered key
            "stranger",
            *("flower-supernode", "--superlink", there.address),
            *("--root-certificates", str(there.certificates.authority)),
            *("--port", str(deployment.free_port()), "--max-retries", "0"),
        )
        for client in range(3):
            there.start_node(client)
        submitted = there.run()
        submitted.wait()
        deployment.terminate_tree(submitted)
        assert stranger.wait(60.0) != 0
        logs = [log.read_text() for log in there.home.glob("*.log")]
    assert len(logs) == 9 and not any("Traceback" in text for text in logs)
    assert_refused(c, plan, tmp_path / "run", tmp_path / "losing")


@pytest.mark.long
def test_records_of_nodes_that_attack_are_those_of_the_simulator(tmp_path):
    for method, kind in (("fedavg", "alie"), ("fedproto", "noise")):
        fields = {"robust__aggregate": "clipped_mean", "attack__clients": "1"}
        both(small(method, attack__kind=kind, **fields), tmp_path / method)
