"""Nodes under privacy: secret noise, an account of rounds, no loss."""

import csv
import json
import stat

import jax
import numpy as np
import pytest
from support.federated import QUIET, Calls, metrics, small, why

from jaxproto.config.privacy import rehearsal
from jaxproto.errors import UserError
from jaxproto.experiment import build
from jaxproto.flower import privacy_account, secret_keys
from jaxproto.flower.node import Node
from jaxproto.flower.server_run import run_server
from jaxproto.reporting import compare
from jaxproto.training import privacy_ledger

pytest.importorskip("dp_accounting", reason="extra `privacy`")


def private(unit, **changes):
    return small("fedavg", privacy__unit=unit, privacy__noise=0.5, **changes)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """A federation under unit `example`, with the requests and replies of client 0."""
    path, said = tmp_path_factory.mktemp("private"), {}

    def happens(stage, r, i, reply):
        said[stage, r, i] = reply
        return reply

    c, asked = private("example", eval_every=2), {}
    link = Calls(c, path / "nodes", happens=happens)
    ask = link.ask

    def record(stage, requests):
        asked.update({(stage, i): request for i, request in requests.items()})
        return ask(stage, requests)

    link.ask = record
    summary = run_server(c, path / "server", link, QUIET)
    return c, path, asked, said, summary


def test_noise_is_secret_and_the_same_again(federation):
    c, path, asked, said, summary = federation
    assert summary["privacy"]["rehearsed"] is False
    request, sent = asked["train", 0], said["train", 2, 0]["up"]
    again = Node(c, 0, path / "nodes/0").answer("train", request, {})
    assert again["up"] == sent
    rehearsed = Node(rehearsal(c), 0, path / "copy").answer("train", request, {})
    assert rehearsed["up"] != sent  # with all that the server knows
    files = [path / "server" / "secret", *(path / "nodes").glob("*/secret")]
    assert len({file.read_bytes() for file in files}) == 4
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    (path / "copy" / "secret").write_bytes(b"short")
    with pytest.raises(UserError, match="is damaged"):
        secret_keys.folder_secret(path / "copy")


def test_a_node_sends_no_loss_and_evaluates_where_it_must(federation):
    c, path, asked, said, _ = federation
    assert {*said["train", 1, 0]} == {"up", "steps", "finite"}
    (record,) = metrics(path / "server")
    assert record["round"] == 2 and record["loss"] is None
    node = Node(c, 0, path / "nodes/0")
    request = asked["evaluate", 0]
    assert request["round"] == 2 and node.answer("evaluate", request, {})
    with pytest.raises(UserError, match="evaluation after round 1 is refused"):
        node.answer("evaluate", {**request, "round": 1}, {})


def test_a_node_answers_a_round_of_the_run_once(federation):
    c, path, asked, _, _ = federation
    node, request = Node(c, 0, path / "nodes/0"), asked["train", 0]
    like, told = node.messages.down_shapes, request["down"]
    down = node.messages.decode(told, like, "down", request["round"])

    def tell(r, down):
        told = node.messages.encode(down, "down", r)
        return node.answer("train", {**request, "round": r, "down": told}, {})

    for r in (2, 1_000_000):
        with pytest.raises(UserError, match="the run has 2 rounds"):
            tell(r, down)
    for r in (0, 1):
        with pytest.raises(UserError, match=f"different broadcast of round {r + 1}"):
            tell(r, jax.tree.map(lambda a: a + 1, down))
    file = path / "nodes/0/answered.json"
    assert {*json.loads(file.read_text())} == {"0", "1"}
    file.write_text("[")
    with pytest.raises(UserError, match="is damaged"):
        node.answer("train", request, {})


LOT = {"participation__law": "uniform", "participation__fraction": 0.34}


def test_who_takes_part_is_secret_and_counted(tmp_path):
    c = private("client", rounds=30, **LOT)
    exp = build.experiment(c, "cpu")
    drawn = [
        privacy_ledger.participation_matrix(
            c, exp, secret_keys.round_contexts(c, tmp_path / name)
        )
        for name in ("a", "b", "a")
    ]
    seeded = privacy_ledger.participation_matrix(c, exp)
    assert np.array_equal(drawn[0], drawn[2])
    assert not np.array_equal(drawn[0], drawn[1])
    assert not np.array_equal(drawn[0], seeded)
    rehearsed = secret_keys.round_contexts(rehearsal(c), tmp_path / "c")
    same = privacy_ledger.participation_matrix(c, exp, rehearsed)
    assert np.array_equal(same, seeded) and not (tmp_path / "c").exists()
    entry = privacy_ledger.privacy_ledger(rehearsal(c), exp, rehearsed)(1)["privacy"]
    assert entry["rehearsed"] is True


def test_compare_says_which_epsilon_is_rehearsed(federation, tmp_path):
    _, path, *_, summary = federation

    def row(spent):
        (run,) = (compare.load(path / "server"),)
        run.results["privacy"] = spent
        text = compare.render(compare.table(compare.group_by_seed([run])), "csv")
        return next(csv.DictReader(text.splitlines()))

    spent = summary["privacy"]
    before = {k: v for k, v in spent.items() if k != "rehearsed"}
    for entry, said in (
        (spent, "no"),
        (spent | {"rehearsed": True}, "yes"),
        (before, "yes"),
    ):
        found = row(entry)
        assert found["rehearsed"] == said
        assert float(found["epsilon"]) == pytest.approx(spent["epsilon"], abs=0.01)


def test_a_refused_broadcast_is_a_lost_upload_of_one_round(tmp_path):
    c = private("client", rounds=2)
    first = Calls(c, tmp_path / "nodes")
    account = tmp_path / "nodes/1" / privacy_account.FILE
    account.write_text('{"1": "of another broadcast"}')
    run_server(c, tmp_path / "server", first, QUIET)
    (said,) = why(tmp_path / "server", "train")
    assert "second, different broadcast of round 2" in said
