"""Nodes with data of their own: what they tell, agree on, and refuse."""

import csv
import json

import jax
import numpy as np
import PIL.Image
import pytest
from support import federated
from support.every import check_every
from support.federated import QUIET, Calls, assert_the_same, metrics, simulated
from support.refusal import refused

import jaxproto
from jaxproto import config
from jaxproto.data import node_schema, nodes
from jaxproto.data.node_schema import NodeDescription
from jaxproto.errors import UserError
from jaxproto.experiment import build
from jaxproto.flower import private_data_node, run_in_process
from jaxproto.flower.server_run import run_server


def small(method="fedavg", **changes):
    return federated.small(method, **{"data.name": "nodes", **changes})


def image(labels=("cat", "dog"), shape=(8, 8, 3), sizes=(6, 2)):
    return NodeDescription("uint8", shape, tuple(labels), *sizes, {})


def written(words, **more):
    return NodeDescription("texts", (), ("good", "bad"), 4, 2, words)._replace(**more)


def test_labels_are_united_in_sorted_order_and_words_by_their_count():
    told = {0: image(["10", "9"]), 2: image(["9", "2"])}
    assert node_schema.merge_descriptions(told, 3, 0).labels == ("2", "9", "10")
    told = {0: image(["dog", "ant"]), 2: image(["cat"])}
    made = node_schema.merge_descriptions(told, 3, 0)
    assert made.labels == ("ant", "cat", "dog")
    assert node_schema.parse_schema(node_schema.to_json(made)) == made
    told = {0: written({"a": 3, "b": 2}), 1: written({"b": 2, "c": 1})}
    tokens = node_schema.merge_descriptions(told, 2, 0).tokens
    assert tokens == ("<pad>", "<unk>", "b", "a", "c")
    assert node_schema.merge_descriptions(told, 2, 4).tokens == tokens[:4]


DO_NOT_FIT = [
    (image(), image(shape=(8, 8, 1)), "client 1 has inputs of shape (8, 8, 1), but c"),
    (image(), written({"a": 1}), "client 1 has inputs of type texts, but client 0"),
    (image(["3", "7"]), image(), "client 0 has the label '3' and client 1 the"),
    (image(["a"]), image(["a"]), "one label, 'a'"),
    (written({}), written({}), "choose a smaller data.min_texts"),
]


def test_data_or_configurations_that_do_not_go_together_are_refused():
    def check(first, second, words):
        with refused(words):
            node_schema.merge_descriptions({0: first, 1: second}, 2, 0)

    check_every(DO_NOT_FIT, check)
    with refused("jaxproto flower"):
        build.experiment(small(), "cpu")
    with pytest.raises(UserError, match=r"public_share=0.1, .* set these to 0"):
        config.check(small(**{"data.public_share": 0.1}))
    with refused("client 0 names no data"):
        private_data_node.parse_node_data(small())
    with pytest.raises(UserError, match=r"data of 2 nodes .* data\.clients is 3"):
        private_data_node.parse_node_data(small(), ["npz:a", "npz:b"])
    digits = small(**{"data.name": "digits"})
    with refused("but data.name is digits"):
        private_data_node.parse_node_data(digits, ["npz:a"] * 3)


def test_who_comes_late_fits_or_is_refused_and_learns_how_many_examples_others_have():
    made = node_schema.merge_descriptions({0: image(), 1: image(["emu"])}, 3, 0)
    for client, description, words in (
        (2, image(["fox", "cat"]), "client 2 has the labels 'fox', which the"),
        (2, image(shape=(9, 9, 3)), "client 2 has inputs of shape (9, 9, 3)"),
        (0, image(sizes=(7, 2)), "but the agreement says 6"),
    ):
        with refused(words):
            node_schema.add_client(made, client, description)
    assert node_schema.add_client(made, 0, image()) == made
    late = node_schema.add_client(made, 2, image(["dog"], sizes=(3, 1)))
    assert late.clients == made.clients and late.late[2].train == 3
    assert node_schema.num_train_examples(late) == node_schema.num_train_examples(made)
    told = node_schema.schema_for(late, 1)
    assert told.clients[0].labels == () and told.clients[0].train == 6
    assert told.clients[1].labels == ("emu",) and not told.late
    assert node_schema.add_client(told, 1, image(["emu"])) == told


def test_rare_words_are_not_told_and_examples_are_divided_by_seed_and_client(tmp_path):
    texts = [("the cat", 0), ("the dog the dog", 1), ("the end", 0)]
    write_csv(tmp_path, texts, texts)
    c = small().data
    found = nodes.read(c, 0, f"csv:{tmp_path}")
    assert nodes.describe_node(found, 2).words == {"the": 4}
    assert nodes.describe_node(found, 1).words["dog"] == 2
    assert nodes.describe_node(found, 4).words == {}
    x = np.arange(80, dtype=np.float32).reshape(40, 2)
    np.savez(tmp_path / "a.npz", x_train=x, y_train=np.arange(40) % 2)
    c, source = small().data, f"npz:{tmp_path / 'a.npz'}"
    one, same, other = (nodes.read(c, i, source) for i in (0, 0, 1))
    assert len(one.train) == 30 and {*one.train, *one.test} == {*range(40)}
    assert np.array_equal(one.train, same.train)
    assert not np.array_equal(one.train, other.train)
    np.savez(tmp_path / "a.npz", x_train=x[:1], y_train=["a"])
    with pytest.raises(UserError, match=r"client 1: .* gives 0 training and 1 test"):
        nodes.read(c, 1, source)


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
    assert third["participants"] == 3 and first["evaluated_clients"] == 2
    (why,) = federated.why(tmp_path / "run", "agree")
    assert "'fox', which the agreement does not know" in why
    made = node_schema.read(tmp_path / "run" / node_schema.FILE)
    assert made.labels == ("cat", "dog", "emu") and made.kind == "uint8"
    assert made.late[2].labels == ("cat", "emu") and {*made.clients} == {0, 1}
    file = tmp_path / "nodes" / "0" / private_data_node.DESCRIPTION_FILE
    told = json.loads(file.read_text())
    assert told["labels"] == ["cat", "dog"] and told["train"] + told["test"] == 16
    c.rounds = 4  # the server starts again, and so do the nodes
    run_server(c, tmp_path / "run", Calls(c, tmp_path / "nodes", named), QUIET)
    assert node_schema.read(tmp_path / "run" / node_schema.FILE) == made
