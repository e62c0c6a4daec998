"""Privacy on nodes: secret noise, an account of rounds, the simulator's epsilon."""

import csv
import json
import stat

import jax
import numpy as np
import pytest
from support.federated import Calls, metrics, why
from support.refusal import refused
from support.simulated import QUIET, simulated, small

from jaxproto.experiment import build, statelessness
from jaxproto.features.privacy import ledger as privacy_ledger
from jaxproto.features.privacy.guarantee import rehearsal
from jaxproto.lab import compare
from jaxproto.nodes.flower import privacy_account, secret_keys
from jaxproto.nodes.flower.node import Node
from jaxproto.nodes.flower.server_run import run_server
from jaxproto.storage.run_folder import RunFolder

pytest.importorskip("dp_accounting", reason="extra `privacy`")
LOT = {"participation__law": "uniform", "participation__fraction": 0.67}


def private(unit, method="fedavg", **changes):
    return small(method, privacy__unit=unit, privacy__noise=0.5, **changes)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """Two clients; client 1 has answered another broadcast of round 2.

    Returns the configuration, the folder, requests to and replies of client 0, and a
    node that is client 0 started again.
    """
    path, asked, said = tmp_path_factory.mktemp("private"), {}, {}
    c = private("example", eval_every=2, data__clients=2)
    link = Calls(c, path / "nodes", happens=lambda *at: said.setdefault(at[:3], at[3]))
    other = path / "nodes/1" / privacy_account.FILE
    other.write_text('{"1": "of another broadcast"}')
    ask = link.ask

    def record(stage, requests):
        asked.setdefault((stage, requests[0]["round"]), requests[0])
        return ask(stage, requests)

    link.ask = record
    run_server(c, path / "server", link, QUIET)
    return c, path, asked, said, Node(c, 0, path / "nodes/0")


@pytest.mark.long
def test_noise_is_secret_and_the_same_again(federation):
    c, path, asked, said, node = federation
    request, sent = asked["train", 1], said["train", 2, 0]["up"]
    assert node.answer("train", request, {})["up"] == sent
    rehearsed = Node(rehearsal(c), 0, path / "copy").answer("train", request, {})
    assert rehearsed["up"] != sent  # with all that the server knows
    files = [path / "server" / "secret", *(path / "nodes").glob("*/secret")]
    assert len({file.read_bytes() for file in files}) == 3
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in files)
    (path / "copy" / "secret").write_bytes(b"short")
    with refused("is damaged"):
        secret_keys.folder_secret(path / "copy")


@pytest.mark.long
def test_a_node_sends_no_loss_and_answers_what_the_run_asks_once(federation):
    _, path, asked, said, node = federation
    assert {*said["train", 1, 0]} == {"up", "steps", "finite"}
    (record,) = metrics(path / "server")
    assert record["round"] == 2 and record["loss"] is None
    request = asked["evaluate", 2]
    assert node.answer("evaluate", request, {})
    with refused("evaluation after round 1 is refused"):
        node.answer("evaluate", {**request, "round": 1}, {})
    (lost,) = why(path / "server", "train")  # of client 1
    assert "second, different broadcast of round 2" in lost
    request, like = asked["train", 1], node.messages.down_shapes
    down = node.messages.decode(request["down"], like, 1)

    def tell(r, down):
        told = node.messages.encode(down, r)
        return node.answer("train", {**request, "round": r, "down": told}, {})

    for r in (2, 1_000_000):
        with refused("the run has 2 rounds"):
            tell(r, down)
    for r in (0, 1):
        with refused(f"different broadcast of round {r + 1}"):
            tell(r, jax.tree.map(lambda a: a + 1, down))
    other = private("example", data__clients=2, privacy__clip=2.0)
    with refused("is of another run (", "privacy.clip: 1.0 there, 2.0 here"):
        Node(other, 0, path / "nodes/0").answer("train", asked["train", 0], {})
    file = path / "nodes/0" / privacy_account.FILE
    assert {*json.loads(file.read_text())} == {"0", "1"}
    file.write_text("[")
    with refused("is damaged"):
        node.answer("train", request, {})


def test_who_takes_part_is_secret_and_counted(tmp_path):
    c = private("client", rounds=30, **LOT)
    exp = build.experiment(c, "cpu")

    def drawn(*contexts):
        return privacy_ledger.participation_matrix(c, exp, *contexts)

    contexts = (secret_keys.round_contexts(c, tmp_path / name) for name in "aba")
    first, other, again = map(drawn, contexts)
    seeded = drawn()
    rehearsed = secret_keys.round_contexts(rehearsal(c), tmp_path / "c")
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other) and not np.array_equal(first, seeded)
    assert np.array_equal(drawn(rehearsed), seeded) and not (tmp_path / "c").exists()


@pytest.mark.long
def test_compare_says_which_epsilon_is_rehearsed(federation):
    run = compare.load(federation[1] / "server")
    spent = run.results["privacy"]
    assert spent["rehearsed"] is False
    before = {k: v for k, v in spent.items() if k != "rehearsed"}
    cases = (spent, "no"), (spent | {"rehearsed": True}, "yes"), (before, "yes")
    for entry, said in cases:
        run.results["privacy"] = entry
        text = compare.render(compare.table(compare.group_by_seed([run])), "csv")
        row = next(csv.DictReader(text.splitlines()))
        assert row["rehearsed"] == said
        assert float(row["epsilon"]) == pytest.approx(spent["epsilon"], abs=0.01)


@pytest.mark.long
@pytest.mark.parametrize(
    ("method", "unit", "lost"),
    [("fedproto", "example", 0.0), ("fedavg", "client", 0.5)],
)
def test_records_and_epsilon_are_those_of_the_simulator(method, unit, lost, tmp_path):
    fields = {"privacy__secret": False, "participation__dropout": lost}
    c = private(unit, method, **fields, **LOT)
    told = simulated(c, tmp_path / "simulated")
    said = run_server(c, tmp_path / "served", Calls(c, tmp_path / "nodes"), QUIET)
    served, alone = (metrics(tmp_path / name) for name in ("served", "simulated"))
    for own, other in zip(served, alone, strict=True):
        assert own["privacy"]["rehearsed"] is True  # its noise follows from the seed
        mine, loss = own.pop("loss"), other.pop("loss")
        if unit == "example":  # a node keeps what reads training examples without noise
            assert mine is None and loss > 0
            assert {*own["rules"]} == {"head", "global"}
            for rule in ("local", "global_own"):
                del other["rules"][rule], other["by_client"][f"correct_{rule}"]
        else:  # its program sums in another order where tests compile quickly
            assert mine == pytest.approx(loss, rel=1e-6)
    assert served == alone != []
    kept = RunFolder.read(tmp_path / "served").summary
    assert said["privacy"] == kept["privacy"] == told["privacy"]
    assert said["privacy"]["unit"] == unit and said["privacy"]["epsilon"] > 0


def test_a_method_whose_rules_all_read_training_examples_is_refused(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(statelessness, "client_independent_rules", lambda *_, **__: ())
    with refused("all rules of this method read"):
        run_server(private("example", "fedproto"), tmp_path / "run", None, QUIET)
    assert not (tmp_path / "run").exists()
