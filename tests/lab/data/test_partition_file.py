"""Partitions made elsewhere: what a file says is what clients get, or is refused."""

import os
from itertools import product

import numpy as np
import pytest
from support.every import check_every
from support.labels import SCHEMES, shuffled
from support.refusal import refused
from support.runs import digits

from jaxproto.data.partitions import partition, public_examples
from jaxproto.experiment import build
from jaxproto.lab.data import partition_file
from jaxproto.summary import run_summary

HEAD = "client,index,part"
PAIR = ("0,1,train", "0,2,test")
TOY = shuffled([15] * 4, test=12, sources=10)
BOTH = public_examples.append_public(TOY, shuffled([2] * 4))


@pytest.fixture
def load(tmp_path):
    path = tmp_path / "who.csv"

    def load(lines, dataset=TOY, **options):
        path.write_text("\n".join([*lines, ""]))
        return partition_file.load(path, dataset, **{"clients": 1, **options})

    return load


def same(one, other):
    for mine, theirs in zip(one, other, strict=True):
        for a, b in zip(mine, theirs, strict=True):
            assert a.dtype == b.dtype == np.int32
            np.testing.assert_array_equal(a, b)


def listed(partition):
    return [[rows.tolist() for rows in part] for part in partition[:2]]


def test_a_saved_partition_loads_as_it_was(load, tmp_path):
    """An official test part and public rows of another set are not written."""

    def check(name, pooled, public):
        dataset, options = TOY, {"clients": 5, "pooled": pooled}
        if public == "a share":
            some = {"share": 0.1, "classes": 0.5, "seed": 2}
            dataset = public_examples.make_some_public(dataset, pooled=pooled, **some)
        elif public == "another set":
            dataset = BOTH
        made = public_examples.divide(dataset, SCHEMES[name], **options)
        text = partition.partition_lines(dataset, made)
        written = made.train + (made.test if pooled else ())
        assert text.count("\n") == 1 + sum(map(len, written))
        again = load(text.splitlines(), dataset, **options, train_share=0.5, seed=9)
        same(made, again)
        assert partition.partition_lines(dataset, again) == text
        assert (tmp_path / "who.csv").read_text() == text

    public = "none", "a share", "another set"
    check_every(product(SCHEMES, (False, True), public), check)


def test_public_examples_are_taken_from_those_who_have_them_in_the_file(load):
    lines = HEAD, "0,1,train", "0,9,train", "0,2,test", "0,3,test"
    assert listed(load(lines)) == [[[1, 9]], [[2, 3]]]
    dataset = TOY._replace(public=np.array([3, 9, 40], np.int32))
    assert listed(load(lines, dataset)) == [[[1]], [[2]]]


def test_columns_come_in_any_order_among_others_and_blank_lines_are_nothing(load):
    lines = "part, note,index ,client", "train,x,3,0", "", "test,y,7,0"
    assert listed(load(lines)) == [[[3]], [[7]]]


def test_without_the_column_part_the_order_of_lines_does_not_matter(load):
    lines = [f"{i % 3},{i}" for i in range(0, 48, 2)]
    for pooled in (True, False):

        def loaded(lines, seed, pooled=pooled):
            return load(["client,index", *lines], clients=3, pooled=pooled, seed=seed)

        one, other = loaded(lines, 4), loaded(lines, 5)
        same(one, loaded(lines[::-1], 4))
        assert [len(rows) for rows in one.train] == [6 if pooled else 8] * 3
        mine = [*one.train, *(one.test if pooled else ())]
        assert sorted(np.concatenate(mine)) == list(range(0, 48, 2))
        assert any(map(np.any, map(np.not_equal, one.train, other.train)))
    assert all(rows.tolist() == [*range(48, 60)] for rows in one.test)


def test_lines_that_cannot_be_used_are_named_with_the_way_out(load):
    """More: `support/bad_files.py`."""
    part = {"pooled": False}
    for lines, options, message in (
        ([*PAIR, "0,60,train"], {"dataset": BOTH}, "index is 60, but data set 'toy'"),
        (
            ["0,1,train", "0,50,train"],
            part,
            "example 50 is in the official test",
        ),
        (PAIR, part, "line 3: example 2 has the part test, but data.pool=False"),
    ):
        with refused(message):
            load([HEAD, *lines], **options)


def built(**fields):
    return build.experiment(digits("local", **{"data__clients": 4, **fields}), "cpu")


def test_a_run_saves_what_another_can_start_from_and_goes_on_with_it_alone(tmp_path):
    first = built()
    run_summary.save_partition(first, tmp_path)
    written = sorted(tmp_path.iterdir())
    assert [path.name for path in written] == ["indices.csv", "partition.csv"]
    for path in written:
        os.utime(path, ns=(1, 1))
    run_summary.save_partition(first, tmp_path)  # a kill in it would end the run
    assert [path.stat().st_mtime_ns for path in written] == [1, 1]
    name = f"file:{tmp_path / 'indices.csv'}"
    same(first.partition, built(data__partition=name).partition)
    with refused("client 4 has no line (and 1 more", "Set data.clients to 4."):
        built(data__partition=name, data__clients=6)
    other = built(data__seed=2)
    run_summary.check_same(other, tmp_path)  # the run had not begun
    (tmp_path / "config.json").write_text("{}")
    run_summary.check_same(first, tmp_path)
    datasets = (first.dataset._replace(classes=(*names,)) for names in ("ab", "ba"))
    named, renamed = (first._replace(dataset=dataset) for dataset in datasets)
    run_summary.save_partition(named, tmp_path)
    for exp, name in ((other, "indices.csv"), (renamed, "classes.json")):
        with refused(f"{name} has another partition or other classes"):
            run_summary.save_partition(exp, tmp_path)
