"""Partitions made elsewhere: what a file says is what clients get, or is refused."""

import re

import numpy as np
import pytest

from jaxproto import config
from jaxproto.config import build
from jaxproto.data.dataset import Dataset
from jaxproto.data.partitions import file as partition_file
from jaxproto.data.partitions import public, schemes
from jaxproto.errors import UserError
from jaxproto.report import summary

SCHEMES = {
    "dirichlet": schemes.dirichlet(0.3),
    "pathological": schemes.pathological(2),
    "pfllib": schemes.pfllib_dirichlet(0.5, least_samples=3),
    "pfllib_pathological": schemes.pfllib_pathological(2),
    "iid": schemes.iid(),
    "quantity": schemes.quantity(0.5),
    "feature": schemes.feature(),
}


def toy(size=60, test=12):
    y = (np.arange(size) % 4).astype(np.int32)
    x = np.zeros((size, 1), np.float32)
    domain = (np.arange(size) % 10).astype(np.int32)
    return Dataset("toy", x, y, 4, size - test, domain=domain)


@pytest.fixture
def written(tmp_path):
    """Writes lines; the path."""

    def write(*lines):
        path = tmp_path / "who.csv"
        path.write_text("\n".join([*lines, ""]))
        return path

    return write


def same(one, other):
    for mine, theirs in zip(one, other, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert a.dtype == b.dtype == np.int32
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("name", SCHEMES)
def test_a_saved_partition_loads_as_it_was(written, name, pooled, shared):
    dataset = toy()
    if shared:
        options = {"share": 0.1, "classes": 0.5, "seed": 1}
        dataset = public.choose(dataset, pooled=pooled, **options)
    options = {"clients": 5, "pooled": pooled}
    made = public.divide(dataset, SCHEMES[name], **options)
    path = written(*partition_file.lines(dataset, made).splitlines())
    again = partition_file.load(path, dataset, **options, train_share=0.5, seed=9)
    same(made, again)
    assert partition_file.lines(dataset, again) == path.read_text()


def test_an_official_test_part_is_not_written_and_public_rows_of_another_set_neither(
    written,
):
    dataset = public.append(toy(), toy(8, 0))
    made = public.divide(dataset, schemes.iid(), clients=3, pooled=False)
    text = partition_file.lines(dataset, made)
    assert text.count("train") == 48 and "test" not in text
    path = written(*text.splitlines())
    same(made, partition_file.load(path, dataset, clients=3, pooled=False))


def test_public_examples_are_taken_from_those_who_have_them_in_the_file(written):
    path = written(HEAD, "0,1,train", "0,9,train", "0,2,test", "0,3,test")
    train, test = partition_file.load(path, toy(), clients=1)
    dataset = toy()._replace(public=np.array([3, 9, 40], np.int32))
    left = partition_file.load(path, dataset, clients=1)
    assert (train[0].tolist(), test[0].tolist()) == ([1, 9], [2, 3])
    assert (left.train[0].tolist(), left.test[0].tolist()) == ([1], [2])


def test_examples_of_another_set_are_no_rows_of_the_file(written):
    path = written(HEAD, *PAIR, "0,60,train")
    with pytest.raises(UserError, match="index is 60, but data set 'toy' has 60 exam"):
        partition_file.load(path, public.append(toy(), toy(8, 0)), clients=1)


def test_columns_come_in_any_order_among_others_and_blank_lines_are_nothing(written):
    path = written("part, note,index ,client", "train,x,3,0", "", "test,y,7,0")
    train, test = partition_file.load(path, toy(), clients=1)
    assert (train[0].tolist(), test[0].tolist()) == ([3], [7])


@pytest.mark.parametrize("pooled", [True, False])
def test_without_the_column_part_the_order_of_lines_does_not_matter(written, pooled):
    lines = [f"{i % 3},{i}" for i in range(0, 48, 2)]
    options = {"clients": 3, "pooled": pooled, "seed": 4}
    one = partition_file.load(written("client,index", *lines), toy(), **options)
    other = partition_file.load(written("client,index", *lines[::-1]), toy(), **options)
    same(one, other)
    assert [len(rows) for rows in one.train] == [6 if pooled else 8] * 3
    mine = [*one.train, *(one.test if pooled else ())]
    assert sorted(np.concatenate(mine)) == list(range(0, 48, 2))
    if not pooled:
        assert all(rows.tolist() == [*range(48, 60)] for rows in one.test)
    third = partition_file.load(
        written("client,index", *lines), toy(), **{**options, "seed": 5}
    )
    assert any(map(np.any, map(np.not_equal, one.train, third.train)))


HEAD = "client,index,part"
PAIR = ("0,1,train", "0,2,test")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("client,row", "0,1"), "no column index. Its first line has client, row; it"),
        ((), "no column client and no column index. Its first line has nothing;"),
        ((HEAD, *PAIR, "1,3"), "line 4: has 2 values, too few for the columns client,"),
        ((HEAD, *PAIR, "1,x,test"), "line 4: index is 'x'. Give a whole number from 0"),
        ((HEAD, *PAIR, "-1,3,test"), "line 4: client is '-1'. Give a whole number fr"),
        ((HEAD, *PAIR, "1,3.0,test"), "line 4: index is '3.0'. Give a whole number f"),
        ((HEAD, *PAIR, f"1,{10**30},test"), f"line 4: index is '{10**30}'. Give a wh"),
        ((HEAD, *PAIR, "1,3,val"), "line 4: part is 'val'. Give train or test, or le"),
        ((HEAD, *PAIR, "1,60,train"), "line 4: index is 60, but data set 'toy' has 60"),
        (
            (HEAD, *PAIR, "1,5,train", "1,2,test"),
            "line 5: example 2 is used twice, first in line 3. An example is of one cl",
        ),
        (
            (HEAD, *PAIR, "7,3,test"),
            "line 4: client is 7, but data.clients is 2, so that they are numbered from"
            " 0 to 1. Set data.clients to 8.",
        ),
        ((HEAD, *PAIR), "client 1 has no line, but data.clients is 2. Set data.clien"),
        ((HEAD,), "client 0 has no line (and 1 more have none), but data.clients is 2"),
        (
            (HEAD, *PAIR, "1,4,train"),
            "client 1 has 1 training and 0 test examples. Give every client one of eac",
        ),
    ],
)
def test_what_cannot_be_used_is_named_with_its_line(written, lines, message):
    path = written(*lines)
    with pytest.raises(UserError, match=re.escape(f"file:{path}")) as caught:
        partition_file.load(path, toy(), clients=2)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ("0,1,train", "0,50,train"),
            "line 3: example 50 is of the official test part",
        ),
        (("0,1,train", "0,2,test"), "line 3: part is test, but data.pool=False tests"),
    ],
)
def test_an_official_test_part_stays_whole(written, lines, message):
    with pytest.raises(UserError, match=re.escape(message)):
        partition_file.load(written(HEAD, *lines), toy(), clients=1, pooled=False)


def test_a_file_that_is_none_is_named(tmp_path):
    for path, message in (
        (tmp_path / "no.csv", "no.csv: no such file. Looked for "),
        (
            tmp_path,
            "is a folder. Give a regular file.",
        ),
    ):
        with pytest.raises(UserError, match=re.escape(message)):
            partition_file.load(path, toy(), clients=1)
    (tmp_path / "a.csv").write_bytes(b"client,index\n\xff\xfe,1\n")
    with pytest.raises(UserError, match="cannot be read"):
        partition_file.load(tmp_path / "a.csv", toy(), clients=1)


# ------------------------------------------------------------------ a configuration


def configured(**fields):
    made = config.experiment("local", "digits")
    made.update_from_flattened_dict({"data.clients": 4, "model.group": "mlp", **fields})
    return made


def test_a_run_saves_what_another_one_can_start_from(tmp_path):
    first = build.experiment(configured(), "cpu")
    summary.save_partition(first, tmp_path)
    name = f"file:{tmp_path / 'indices.csv'}"
    second = build.experiment(configured(**{"data.partition": name}), "cpu")
    same(first.partition, second.partition)
    with pytest.raises(
        UserError, match=r"Set data\.clients to the number of clients in"
    ):
        build.experiment(
            configured(**{"data.partition": name, "data.clients": 6}), "cpu"
        )


def test_a_misspelt_partition_is_told_that_there_are_files():
    with pytest.raises(UserError, match=r"unknown partition 'fil:a.csv'.*file:PATH"):
        build.experiment(configured(**{"data.partition": "fil:a.csv"}), "cpu")


def test_a_run_does_not_go_on_with_another_partition(tmp_path):
    one = build.experiment(configured(), "cpu")
    other = build.experiment(configured(**{"data.seed": 2}), "cpu")
    summary.save_partition(one, tmp_path)
    summary.check_same(other, tmp_path)  # the run had not begun
    (tmp_path / "config.json").write_text("{}")
    summary.check_same(one, tmp_path)
    with pytest.raises(UserError, match=r"indices.csv has another partition than the"):
        summary.check_same(other, tmp_path)
