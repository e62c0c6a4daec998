"""Partitions by classes that the user writes, in one line or in a file."""

import numpy as np
from support.labels import count, labels_only
from support.refusal import refused
from support.runs import digits

from jaxproto.experiment import build
from jaxproto.lab.data import classes_by_hand

TOY = labels_only([12, 30, 9, 7])
NAMED = TOY._replace(classes=("cat", "dog", "a,b", "1"))


def hands(text, dataset=TOY, clients=3, **options):
    """Counts training and test examples of each client and class [K, C]."""
    parts = classes_by_hand.load(text, dataset, clients=clients, **options)
    return sum(count(dataset.y, part) for part in parts[:2])


def test_clients_have_their_classes_and_share_them_equally(tmp_path):
    expected = [[12, 10, 0, 0], [0, 10, 0, 0], [0, 10, 9, 0]]
    np.testing.assert_array_equal(hands("0,1;1;2, 1"), expected)
    np.testing.assert_array_equal(hands("cat,dog;dog;1", NAMED)[:, 3], [0, 0, 7])
    path = tmp_path / "who.csv"
    path.write_text('class,client,note\ndog,2,x\ncat,0,\n"a,b",2,\ndog,0,\ndog,1,\n')
    np.testing.assert_array_equal(hands(f"{path}", NAMED), expected)
    others = [hands("0,1;1;2,1", seed=seed) for seed in (1, 2)]
    np.testing.assert_array_equal(*others)


def test_what_cannot_be_meant_is_refused(tmp_path):
    path = tmp_path / "who.csv"
    for text, words in (
        ("0;1", "has 2 clients, but data.clients is 3. Set data.clients to 2."),
        ("0;1;4", "unknown class of client 2 '4'"),
        ("0;1,1;2", "client 1 has class '1' twice"),
        ("0;;2", "client 1 has an empty class"),
        (f"{path}", "no such file"),
    ):
        with refused(words):
            hands(text)
    for content, *words in (
        ("client,label\n0,1\n", "cannot be read", "the columns client and class"),
        ("client,class\nx,1\n", "cannot be read"),
        ("client,class\n1,1\n2,1\n3,2\n", "clients are 1, 2, 3. Number them from 0"),
    ):
        path.write_text(content)
        with refused(*words):
            hands(f"{path}")
    empty = TOY._replace(num_classes=5)
    with refused("client 2 has class '4', of which there is no example"):
        hands("0;1;4", empty)
    with refused("class 3 has 7 examples for 8 clients"):
        hands("0,3;" + "3;" * 6 + "3", clients=8)


def test_a_run_starts_with_it():
    text = "classes:0,1;2,3;4,5;6,7,8,9"
    c = digits("local", data__clients=4, data__partition=text)
    classes = build.experiment(c, "cpu").counts.train > 0
    assert [np.flatnonzero(row).tolist() for row in classes][3] == [6, 7, 8, 9]
