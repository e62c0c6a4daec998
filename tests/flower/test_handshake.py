"""The exchange before the first round, with nodes that only describe their data."""

import json
import tempfile
from pathlib import Path

from support.every import every
from support.refusal import refused

from jaxproto import config
from jaxproto.data import node_schema
from jaxproto.data.node_schema import NodeDescription
from jaxproto.flower.accept import REFUSED
from jaxproto.flower.handshake import HandshakeLink, describe_schema
from jaxproto.reporting.analysis import disclosure


def described(*labels, shape=(8, 8, 1)):
    return NodeDescription("uint8", shape, labels, 6, 2, {})


class Nodes:
    """A link to nodes; `data` are their descriptions, replies, or refusals."""

    def __init__(self, data):
        self.data, self.asked, self.agreed = data, [], {}

    def members(self):
        return set(self.data)

    def ask(self, stage, told):
        self.asked += [(stage, i) for i in told]
        return {i: self.said(stage, i, of) for i, of in told.items()}

    def said(self, stage, i, told):
        own = self.data[i]
        if isinstance(own, str):
            return {REFUSED: own}
        if isinstance(own, dict):
            return own
        if stage == "agree":
            self.agreed[i] = node_schema.parse_schema(told["agreement"])
        return {"data": node_schema.to_json(own)} if stage == "describe" else {}


def begun(link, path):
    c = config.experiment("fedavg", "digits")
    c.data.name, c.data.clients = "nodes", 3
    faults = []
    return HandshakeLink(link, c, path, faults.append), faults


def test_each_is_asked_once_and_told_or_again_once_it_refuses(tmp_path):
    link = Nodes({0: described("a", "b"), 1: described("b", "c")})
    made, faults = begun(link, tmp_path)
    assert made.members() == made.members() == {0, 1} and not faults
    stages = [(s, i) for s in ("describe", "agree") for i in (0, 1)]
    assert link.asked == stages
    assert link.agreed[0].labels == ("a", "b", "c")
    assert node_schema.read(tmp_path / node_schema.FILE) == made.schema
    assert made.server_data().num_examples == 12
    assert describe_schema(made.schema)[-1] == "client 2: not there yet"
    before, own = len(link.asked), link.data[1]
    link.data[1] = "its data are gone"
    assert made.ask("train", {0: {}, 1: {}})[1] == {REFUSED: "its data are gone"}
    link.data[1] = own
    assert made.members() == {0, 1}
    assert link.asked[before + 2 :] == [("describe", 1), ("agree", 1)]


def test_who_does_not_fit_is_named_once_also_by_a_server_that_starts_again(tmp_path):
    link = Nodes({0: described("a", "b"), 1: "no such folder"})
    made, faults = begun(link, tmp_path)
    link.data[2] = described("d")
    grown = []
    made.on_join = lambda: grown.append(made.server_data().partition.test[2].size)
    for _ in range(3):
        assert made.members() == {0}
    told = [(f.round, f.client, f.stage) for f in faults]
    assert told == [(0, 1, "agree"), (0, 2, "agree")]
    assert faults[0].why == "no such folder" and "'d', which" in faults[1].why
    link.data |= {1: described("b"), 2: described("a")}
    assert made.members() == {0, 1, 2} and grown == [2]
    assert {*made.schema.clients} == {0} and {*made.schema.late} == {1, 2}
    assert {*link.agreed[1].late} == {1}
    link = Nodes({0: described("a", "b"), 1: described("c")})
    path = tmp_path / "other"
    path.mkdir()
    first, _ = begun(link, path)
    link.data[0] = described("a", "z")
    again, faults = begun(link, path)
    assert again.schema == first.schema and again.members() == {1}
    assert "client 0 has the labels 'z'" in faults[0].why


def test_nothing_begins_without_data_or_an_agreement_that_can_be_used(tmp_path):
    link = Nodes({0: "no such folder", 1: "no such file"})
    with refused("no client has described its data"):
        begun(link, tmp_path)
    link = Nodes({0: described("a", "b"), 1: described("a", shape=(9, 9, 1))})
    with refused("client 1 has inputs of shape (9, 9, 1)"):
        begun(link, tmp_path)
    file = tmp_path / node_schema.FILE
    assert not file.exists()
    with refused("cannot be read"):
        node_schema.read(file)
    file.write_text("{}")
    with refused("agreement.json is damaged"):
        node_schema.read(file)
    with refused("same version of jaxproto"):
        node_schema.parse_description("[]")


def lie(text="", **fields):
    """A reply with another description, or with any text."""
    told = described("a", "b")._asdict() | fields
    return {"data": text or json.dumps(told)}


LIES = [  # a reply, and the words of its refusal
    ({}, "malformed: KeyError('data')"),
    ({"data": 5}, "cannot be read (TypeError"),
    (lie("no json"), "cannot be read (JSONDecodeError"),
    (lie("[" * 100_000), "cannot be read (RecursionError"),
    (lie(train=-5), "describes its train as -5"),
    (lie(train=10**13), "describes its train as 10000000000000"),
    (lie(train=1e30), "describes its train as 1e+30"),
    (lie(test=True), "describes its test as True"),
    (lie(kind="nonsense"), "has 'nonsense' inputs"),
    (lie(kind="texts"), "has 'texts' inputs of shape (8, 8, 1)"),
    (lie(shape=[-1, 8, 1]), "describes its shape as -1"),
    (lie(shape=[10**4, 10**4]), "describes its shape as 100000000"),
    (lie(shape=7), "cannot be read (TypeError"),
    (lie(shape=[9, 9, 1]), "client 2 has inputs of shape (9, 9, 1)"),
    (lie(labels=["\x1b[2Jb", "a"]), "'\\x1b[2Jb' is among the labels"),
    (lie(labels=["a", "a"]), "has one label twice"),
    (lie(labels=[]), "all numbers or all names"),
    (lie(labels=["a", 1]), "1 is among the labels"),
    (lie(labels=["a", "1"]), "all numbers or all names"),
    (lie(labels=["1", "2"]), "client 2 has the labels '1', '2', which the agreement"),
    (lie(labels=[f"{n}" for n in range(10**4 + 1)]), "has 10,001 labels"),
    (lie(words={"a": 1}), "words of images"),
    (lie(kind="texts", shape=[], words={"a": 10**9}), "describes its words as 10000"),
    (lie(kind="texts", shape=[], words={"a": -1}), "describes its words as -1"),
    (lie(kind="texts", shape=[], words={"a\nb": 1}), "is among the words"),
    (lie(kind="texts", shape=[], words=["a"]), "cannot be read (AttributeError"),
]


@every(LIES)
def test_a_description_that_is_no_such_is_a_fault_of_its_client(reply, words):
    with tempfile.TemporaryDirectory() as folder:
        link = Nodes({0: described("a", "b"), 1: described("b"), 2: reply})
        made, faults = begun(link, Path(folder))
        assert made.members() == {0, 1} and {*made.schema.clients} == {0, 1}
    assert {f.client for f in faults} == {2} and words in faults[-1].why


def test_fields_says_what_the_first_exchange_discloses(tmp_path):
    made, _ = begun(Nodes({0: described("a", "b"), 1: described("c")}), tmp_path)
    c = config.experiment("fedproto", "digits")
    c.data.name, c.data.clients, c.data.min_texts, c.model.group = "nodes", 3, 7, "mlp"
    alone = disclosure.view(c, False)
    assert "class presence" in alone.notes[0] and "at least 7" in alone.notes[0]
    assert not alone.rows and "--agreement" in alone.notes[-1]
    whole = disclosure.view(c, False, made=made.schema)
    assert whole.notes[:2] == alone.notes[:2]
    assert ("up", "mean", f"3x{c.model.feat_dim}") in [row[:3] for row in whole.rows]
