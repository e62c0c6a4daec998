"""Nodes with data of their own: what they tell, agree on, and refuse."""

import csv
import json
import tempfile
from pathlib import Path

import jax
import numpy as np
import PIL.Image
import pytest
from support import federated
from support.every import check_every, every
from support.federated import Calls, assert_the_same, metrics
from support.refusal import refused
from support.simulated import QUIET, simulated
from support.simulated import small as perceptrons

import jaxproto
from jaxproto import config
from jaxproto.attacks import disclosure
from jaxproto.experiment import build
from jaxproto.nodes import data_schema, private_data
from jaxproto.nodes.data_schema import NodeDescription
from jaxproto.nodes.flower import private_data_node, run_in_process
from jaxproto.nodes.flower.accept import REFUSED
from jaxproto.nodes.flower.handshake import HandshakeLink, describe_schema
from jaxproto.nodes.flower.server_run import run_server


def small(method="fedavg", **changes):
    return perceptrons(method, **{"data.name": "nodes", **changes})


def described(*labels, sizes=(6, 2)):
    return NodeDescription("uint8", (8, 8, 1), labels, *sizes, {})


def written(words):
    return NodeDescription("texts", (), ("good", "bad"), 4, 2, words)


def test_labels_are_united_in_sorted_order_and_words_by_their_count():
    told = {0: described("10", "9"), 2: described("9", "2")}
    assert data_schema.merge_descriptions(told, 3, 0).labels == ("2", "9", "10")
    told = {0: written({"a": 3, "b": 2}), 1: written({"b": 2, "c": 1})}
    tokens = data_schema.merge_descriptions(told, 2, 4).tokens
    assert tokens == ("<pad>", "<unk>", "b", "a")


DO_NOT_FIT = [
    (described("a"), written({"a": 1}), "client 1 has inputs of type texts, but"),
    (described("3", "7"), described("a"), "client 0 has the label '3' and client"),
    (described("a"), described("a"), "one label, 'a'"),
    (written({}), written({}), "choose a smaller data.min_texts"),
]


def test_data_or_configurations_that_do_not_go_together_are_refused():
    def check(first, second, words):
        with refused(words):
            data_schema.merge_descriptions({0: first, 1: second}, 2, 0)

    check_every(DO_NOT_FIT, check)
    with refused("jaxproto flower"):
        build.experiment(small(), "cpu")
    with refused("public_share=0.1, ", " set these to 0"):
        config.check(small(**{"data.public_share": 0.1}))
    with refused("client 0 names no data"):
        private_data_node.parse_node_data(small())
    with refused("data of 2 nodes ", " data.clients is 3"):
        private_data_node.parse_node_data(small(), ["npz:a", "npz:b"])
    digits = small(**{"data.name": "digits"})
    with refused("but data.name is digits"):
        private_data_node.parse_node_data(digits, ["npz:a"] * 3)


def test_nodes_learn_how_many_examples_others_have_and_nothing_of_who_comes_late():
    told = {0: described("cat"), 1: described("emu")}
    made = data_schema.merge_descriptions(told, 3, 0)
    with refused("but the agreement says 6"):
        data_schema.add_client(made, 0, described("cat", sizes=(7, 2)))
    late = data_schema.add_client(made, 2, described("cat", sizes=(3, 1)))
    assert late.clients == made.clients and late.late[2].train == 3
    assert data_schema.num_train_examples(late) == data_schema.num_train_examples(made)
    told = data_schema.schema_for(late, 1)
    assert told.clients[0].labels == () and told.clients[0].train == 6
    assert told.clients[1].labels == ("emu",) and not told.late


def test_rare_words_are_not_told_and_examples_are_divided_by_seed_and_client(tmp_path):
    texts = [("the cat", 0), ("the dog the dog", 1), ("the end", 0)]
    write_csv(tmp_path, texts, texts)
    c = small().data
    found = private_data.read(c, 0, f"csv:{tmp_path}")
    assert private_data.describe_node(found, 2).words == {"the": 4}
    x = np.arange(80, dtype=np.float32).reshape(40, 2)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=np.arange(40) % 2)
    c, source = small().data, f"npz:{tmp_path / 'a.npz'}"
    one, same, other = (private_data.read(c, i, source) for i in (0, 0, 1))
    assert len(one.train) == 30 and {*one.train, *one.test} == {*range(40)}
    assert np.array_equal(one.train, same.train)
    assert not np.array_equal(one.train, other.train)
    np.savez(tmp_path / "a.npz", x_train=x[:1], y_train=["a"])
    with refused("client 1: ", " gives 0 training and 1 test"):
        private_data.read(c, 1, source)


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
            self.agreed[i] = data_schema.parse_schema(told["agreement"])
        return {"data": data_schema.to_json(own)} if stage == "describe" else {}


def begun(link, path):
    faults = []
    return HandshakeLink(link, small(), path, faults.append), faults


def test_each_is_asked_once_and_told_or_again_once_it_refuses(tmp_path):
    link = Nodes({0: described("a", "b"), 1: described("b", "c")})
    made, faults = begun(link, tmp_path)
    assert made.members() == made.members() == {0, 1} and not faults
    stages = [(s, i) for s in ("describe", "agree") for i in (0, 1)]
    assert link.asked == stages
    assert link.agreed[0].labels == ("a", "b", "c")
    assert data_schema.read(tmp_path / data_schema.FILE) == made.schema
    assert describe_schema(made.schema)[-1] == "client 2: not there yet"
    before, own = len(link.asked), link.data[1]
    link.data[1] = "its data are gone"
    assert made.ask("train", {0: {}, 1: {}})[1] == {REFUSED: "its data are gone"}
    link.data[1] = own
    assert made.members() == {0, 1}
    assert link.asked[before + 2 :] == [("describe", 1), ("agree", 1)]


def test_who_does_not_fit_is_named_once_also_by_a_server_that_starts_again(tmp_path):
    link = Nodes({0: described("a", "b"), 1: described("c")})
    first, _ = begun(link, tmp_path)
    link.data[0] = described("a", "z")
    again, faults = begun(link, tmp_path)
    assert again.schema == first.schema
    assert again.members() == again.members() == {1}
    assert [(f.round, f.client, f.stage) for f in faults] == [(0, 0, "agree")]
    assert "client 0 has the labels 'z'" in faults[0].why


def test_nothing_begins_without_data_or_an_agreement_that_can_be_used(tmp_path):
    link = Nodes({0: "no such folder", 1: "no such file"})
    with refused("no client has described its data"):
        begun(link, tmp_path)
    file = tmp_path / data_schema.FILE
    with refused("cannot be read"):
        data_schema.read(file)
    file.write_text("{}")
    with refused("agreement.json is damaged"):
        data_schema.read(file)


def lie(text="", **fields):
    """A reply with another description, or with any text."""
    told = described("a", "b")._asdict() | fields
    return {"data": text or json.dumps(told)}


LIES = [  # a reply, and the words of its refusal
    ({}, "malformed: KeyError('data')"),
    ({"data": 5}, "cannot be read (TypeError"),
    (lie("[" * 100_000), "cannot be read (RecursionError"),
    (lie(train=10**13), "describes its train as 10000000000000"),
    (lie(test=True), "describes its test as True"),
    (lie(kind="nonsense"), "has 'nonsense' inputs"),
    (lie(kind="texts"), "has 'texts' inputs of shape (8, 8, 1)"),
    (lie(shape=[-1, 8, 1]), "describes its shape as -1"),
    (lie(shape=[10**4, 10**4]), "describes its shape as 100000000"),
    (lie(shape=[9, 9, 1]), "client 2 has inputs of shape (9, 9, 1)"),
    (lie(labels=["\x1b[2Jb", "a"]), "'\\x1b[2Jb' is among the labels"),
    (lie(labels=["a", "a"]), "has one label twice"),
    (lie(labels=["a", 1]), "1 is among the labels"),
    (lie(labels=["a", "1"]), "all numbers or all names"),
    (lie(labels=[f"{n}" for n in range(10**4 + 1)]), "has 10,001 labels"),
    (lie(words={"a": 1}), "words of images"),
    (lie(kind="texts", shape=[], words={"a": 10**9}), "describes its words as 10000"),
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
    c = small("fedproto", **{"data.min_texts": 7})
    alone = disclosure.view(c, False)
    assert "class presence" in alone.notes[0] and "at least 7" in alone.notes[0]
    assert not alone.rows and "--agreement" in alone.notes[-1]
    whole = disclosure.view(c, False, made=made.schema)
    assert ("up", "mean", f"3x{c.model.feat_dim}") in [row[:3] for row in whole.rows]


def divided(c, path):
    exp = build.experiment(c, "cpu")
    x, y, named = exp.dataset.x, exp.dataset.y, []
    each = zip(exp.partition.train, exp.partition.test, strict=True)
    for i, (train, test) in enumerate(each):
        parts = {"x_train": x[train], "y_train": y[train]}
        parts |= {"x_test": x[test], "y_test": y[test]}
        np.savez(path / f"{i}.npz", **parts)
        named.append(f"npz:{path / f'{i}.npz'}")
    return named


@pytest.mark.long
def test_records_are_those_of_the_simulator_bit_for_bit(tmp_path):
    c = small("fedproto", **{"model.group": "mlp,cnn4_d", "data.name": "digits"})
    simulated(c, tmp_path / "simulated")
    named = divided(c, tmp_path)
    c.data.name = "nodes"
    run_in_process(c, tmp_path / "own", named, QUIET)
    assert_the_same(tmp_path / "own", tmp_path / "simulated")
    run = jaxproto.load(tmp_path / "own")
    assert run.round == 2
    assert all(np.isfinite(a).all() for a in jax.tree.leaves(run.server))


def write_csv(folder, train, test):
    folder.mkdir(exist_ok=True)
    for name, rows in {"train.csv": train, "test.csv": test}.items():
        with (folder / name).open("w", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *rows])


SAID = {  # a node's classes and words
    0: [("good food", "food"), ("a bad soup", "food"), ("my train", "travel")],
    1: [("late train again", "travel"), ("new phone", "tech"), ("fast phone", "tech")],
    2: [("soup and bread", "food"), ("a slow phone", "tech"), ("bread", "food")],
}


@pytest.mark.long
def test_texts_have_the_vocabulary_and_records_of_the_simulator(tmp_path):
    c = small("fedavg", **{"model.group": "fasttext", "data.max_len": 4})
    c.data.min_texts, c.local.batch_size = 1, 2
    whole, lines = {"train": [], "test": []}, ["client,index,part"]
    for i, rows in SAID.items():
        parts = {"train": rows * 3, "test": rows}
        write_csv(tmp_path / str(i), *parts.values())
        for part, mine in parts.items():
            at = len(whole[part]) + (27 if part == "test" else 0)
            lines += [f"{i},{at + k},{part}" for k in range(len(mine))]
            whole[part] += mine
    write_csv(tmp_path / "all", **whole)
    (tmp_path / "who.csv").write_text("\n".join(lines))
    named = [f"csv:{tmp_path / str(i)}" for i in SAID]
    run_in_process(c, tmp_path / "own", named, QUIET)
    c.data.name = f"csv:{tmp_path / 'all'}"
    c.data.partition = f"file:{tmp_path / 'who.csv'}"
    simulated(c, tmp_path / "simulated")
    folders = tmp_path / "own", tmp_path / "simulated"
    one, other = ((path / "vocabulary.txt").read_text() for path in folders)
    assert one == other and "phone" in one.split()
    assert_the_same(tmp_path / "own", tmp_path / "simulated")


def draw(folder, classes, count=8):
    rng = np.random.default_rng(len(classes))
    for name in classes:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for k in range(count):
            pixels = rng.integers(0, 255, (6, 6, 3), np.uint8)
            PIL.Image.fromarray(pixels).save(folder / name / f"{k}.png")


@pytest.mark.long
def test_images_of_other_classes_and_an_unknown_one(tmp_path):
    """Client 2 comes late, with a label that nobody knows, and without it."""
    draw(tmp_path / "0", ["cat", "dog"])
    draw(tmp_path / "1", ["dog", "emu"])
    draw(tmp_path / "2", ["fox", "emu"])
    named = [f"folder:{tmp_path / str(i)}" for i in range(3)]
    c = small("fedproto", **{"rounds": 3, "local.batch_size": 4})
    fox = tmp_path / "2" / "fox"

    def happens(stage, r, i, said):
        if (stage, r) == ("evaluate", 3) and fox.exists():  # after round 2
            fox.rename(tmp_path / "2" / "cat")
        if stage == "evaluate":
            link.there = {0, 1, 2}
        return said

    link = Calls(c, tmp_path / "nodes", named, happens)
    link.there = {0, 1}
    run_server(c, tmp_path / "run", link, QUIET)
    first, second, third = metrics(tmp_path / "run")
    assert (first["participants"], second["participants"]) == (2, 2)
    assert first["evaluated_clients"] == 2 and third["participants"] == 3
    assert "evaluated_clients" not in third  # all of them
    (why,) = federated.why(tmp_path / "run", "agree")
    assert "'fox', which the agreement does not know" in why
    made = data_schema.read(tmp_path / "run" / data_schema.FILE)
    assert made.labels == ("cat", "dog", "emu")
    assert made.late[2].labels == ("cat", "emu") and {*made.clients} == {0, 1}
    file = tmp_path / "nodes" / "0" / private_data_node.DESCRIPTION_FILE
    told = json.loads(file.read_text())
    assert told["labels"] == ["cat", "dog"] and told["train"] + told["test"] == 16
    c.rounds = 4  # the server starts again, and so do the nodes
    run_server(c, tmp_path / "run", Calls(c, tmp_path / "nodes", named), QUIET)
    assert data_schema.read(tmp_path / "run" / data_schema.FILE) == made
