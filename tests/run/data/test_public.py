"""Public examples: which they are, and that no client has them."""

import numpy as np
from support.refusal import refused

from jaxproto import config
from jaxproto.data.dataset import make_dataset
from jaxproto.data.partitions import partition, public_examples
from jaxproto.data.partitions.public_examples import sample_public_rows
from jaxproto.experiment import build


def made(train=200, test=40, classes=4, seed=0, name="made"):
    rng = np.random.default_rng(seed)
    x, y = rng.integers(0, 256, (train + test, 2, 2, 1), np.uint8), np.arange(train)
    part = x[:train], y % classes
    return make_dataset(name, part, (x[train:], np.arange(test) % classes))


def test_the_sample_is_balanced_over_the_asked_share_of_classes_by_its_seed():
    y = np.repeat(np.arange(10), [50, 30, 30, 90, 60, 50, 40, 50, 70, 30])
    count = np.bincount(y[sample_public_rows(y, 0.2, 0.4, 3)], minlength=10)
    assert sorted(count) == [0] * 6 + [25] * 4
    y = np.arange(300) % 10
    a, b, c = (sample_public_rows(y, 0.1, 0.5, seed) for seed in (1, 1, 2))
    assert np.array_equal(a, b) and not np.array_equal(a, c)
    assert np.array_equal(a, np.unique(a))
    for classes, number in ((0.5, 5), (1e-6, 1)):  # one example of each covered class
        rows = sample_public_rows(y, 1e-6, classes, 0)
        assert len(np.unique(y[rows])) == len(rows) == number


def test_a_client_with_public_examples_alone_is_named():
    dataset = made()._replace(public=np.array([3, 5, 9], np.int32))
    parts = partition.make_partition([[3, 9], [1, 2]], [[4], [4]])
    with refused("all 2 training examples of client 0 are public"):
        public_examples.remove_public(dataset, parts)
    parts = partition.make_partition([[1], [1]], [[4], [5]])
    with refused("all 1 test examples of client 1 are public"):
        public_examples.remove_public(dataset, parts)


def test_another_set_must_be_of_the_same_form():
    named = made()._replace(classes=tuple("abcd"))
    for extra, words in (
        (made(classes=3, name="other"), "have number of classes 3, but data set 'mad"),
        (named._replace(name="other", classes=tuple("abdc")), "call class 2 'd', but"),
        (named._replace(name="other", tokens=("<pad>", "a")), "have another vocabular"),
    ):
        with refused(f"public data 'other' {words}"):
            public_examples.append_public(named, extra)
    extra = made(20, 4, seed=1, name="other")
    both = public_examples.append_public(made(), extra)
    assert both.public.tolist() == [*range(240, 264)] and both.num_classes == 4
    assert np.array_equal(both.x[both.public], extra.x)
    assert np.array_equal(both.y[both.public], extra.y)


def test_impossible_shares_are_named():
    with refused("60 examples, but 108 of each"):
        sample_public_rows(made().y, 0.9, 0.5, 1)
    c = config.experiment("local", "spiral")
    c.data.update({"public_share": 0.1, "public_source": "spiral"})
    for share, said in ((0.1, "come from one of both"), (0.0, "whose test examples")):
        c.data.public_share = share
        with refused(said):
            public_examples.load(c.data)


def test_the_configuration_of_refprotofl_alone_makes_public_rows_of_the_pool():
    c = config.load("configs/refprotofl.py")
    config.check(c)
    exp = build.experiment(c, "cpu")
    examples = build.examples(exp.dataset)
    assert len(np.unique(examples.y[examples.public])) == 5
    assert abs(len(examples.public) - 0.01 * len(examples.y)) <= 5
    mine = [*exp.partition.train, *exp.partition.test, examples.public]
    assert np.sort(np.concatenate(mine)).tolist() == [*range(len(examples.y))]
    c = config.load("configs/local.py")
    assert build.examples(build.experiment(c, "cpu").dataset).public is None
