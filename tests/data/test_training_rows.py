"""Rows that are held out of training, or all given to one client."""

import numpy as np

from jaxproto.data.partitions import training_rows
from jaxproto.data.partitions.registry import make_partition

SIZES = (1, 4, 5, 40)  # training examples of the clients
SHARE = 0.2


def made():
    rows = np.random.default_rng(0).permutation(sum(SIZES)).astype(np.int32)
    train = np.split(rows, np.cumsum(SIZES)[:-1])
    return make_partition(train, [np.arange(100, 103)] * len(SIZES))


def lists(part):
    return [rows.tolist() for rows in part]


def test_validation_rows_are_of_the_training_rows_and_nothing_else_changes():
    whole, parts = made(), training_rows.hold_out(made(), SHARE, 1)
    assert [len(rows) for rows in parts.validation] == [0, 0, 1, 8]
    assert lists(parts.test) == lists(whole.test)
    for before, kept, held in zip(whole.train, *parts[::2], strict=True):
        assert before[~np.isin(before, held)].tolist() == kept.tolist()  # their order
        assert sorted([*kept, *held]) == sorted(before) and held.dtype == np.int32
    assert training_rows.hold_out(whole, 0.0, 1) == whole


def test_the_rows_depend_on_the_set_of_rows_the_seed_and_the_client():
    whole = made()
    turned = whole._replace(train=tuple(rows[::-1] for rows in whole.train))

    def held(parts, seed=1):
        found = training_rows.hold_out(parts, SHARE, seed).validation
        return lists(map(np.sort, found))

    assert held(whole) == held(turned) != held(whole, seed=2)
    twice = whole._replace(train=(whole.train[3],) * 4)
    assert held(twice)[0] != held(twice)[1]


def test_one_client_trains_on_all_that_is_left():
    for share in (0.0, SHARE):
        parts = training_rows.hold_out(made(), share, 1)
        central = training_rows.centralise(parts)
        assert central.train[0].tolist() == np.concatenate(parts.train).tolist()
        assert [len(rows) for rows in central.train[1:]] == [0] * 3
        assert central[1:] == parts[1:]
