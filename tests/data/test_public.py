"""Public examples: which they are, and that no client has them."""

import numpy as np
import pytest

from jaxproto import config
from jaxproto.config import build
from jaxproto.data.dataset import assemble
from jaxproto.data.partitions import public, schemes
from jaxproto.data.partitions.pfllib import pfllib_dirichlet
from jaxproto.data.partitions.scheme import dirichlet, iid
from jaxproto.errors import UserError


def made(train=200, test=40, classes=4, seed=0, name="made"):
    rng = np.random.default_rng(seed)
    parts = [
        (rng.integers(0, 256, (n, 2, 2, 1), np.uint8), np.arange(n) % classes)
        for n in (train, test)
    ]
    return assemble(name, *parts)


def chosen(pooled=True, **options):
    options = {"share": 0.1, "classes": 0.5, "seed": 1, **options}
    return public.choose(made(), pooled=pooled, **options)


def everyones(parts):
    return np.concatenate([*parts.train, *parts.test])


def test_the_sample_is_balanced_over_the_asked_share_of_classes():
    y = np.repeat(np.arange(10), [50, 30, 30, 90, 60, 50, 40, 50, 70, 30])
    count = np.bincount(y[public.take(y, 0.2, 0.4, 3)], minlength=10)
    assert sorted(count) == [0] * 6 + [25] * 4


def test_the_sample_depends_on_the_seed_alone():
    y = np.arange(300) % 10
    a, b, c = (public.take(y, 0.1, 0.5, seed) for seed in (1, 1, 2))
    assert np.array_equal(a, b) and not np.array_equal(a, c)
    assert np.array_equal(a, np.unique(a))


def test_a_tiny_share_still_has_one_example_of_each_covered_class():
    y = np.arange(100) % 10
    assert len(np.unique(y[public.take(y, 1e-6, 0.5, 0)])) == 5
    assert len(public.take(y, 1e-6, 1e-6, 0)) == 1


@pytest.mark.parametrize("scheme", [iid(), dirichlet(0.5)], ids=["iid", "dirichlet"])
@pytest.mark.parametrize("pooled", [True, False])
def test_public_rows_belong_to_no_client(pooled, scheme):
    dataset = chosen(pooled)
    parts = public.divide(dataset, scheme, clients=4, pooled=pooled)
    mine = np.unique(everyones(parts))
    assert not np.intersect1d(mine, dataset.public).size
    rest = np.setdiff1d(np.arange(len(dataset.y)), dataset.public)
    assert np.array_equal(mine, rest)


def test_the_official_test_part_stays_whole():
    dataset = chosen(pooled=False)
    parts = public.divide(dataset, iid(), clients=3, pooled=False)
    assert dataset.public.max() < dataset.train_size
    assert all(np.array_equal(rows, np.arange(200, 240)) for rows in parts.test)


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("scheme", [dirichlet(0.1), pfllib_dirichlet(0.1)])
def test_clients_are_those_of_a_run_without_public_examples_but_for_these(
    pooled, scheme
):
    """Methods with and without are compared on one division (RefProtoFL)."""
    dataset, options = chosen(pooled, share=0.02), {"clients": 4, "pooled": pooled}
    plain = schemes.divide(made(), scheme, **options)
    parts = public.divide(dataset, scheme, **options)
    for before_K, after_K in zip(plain, parts, strict=True):
        for before, after in zip(before_K, after_K, strict=True):
            kept = before[~np.isin(before, dataset.public)]
            assert np.array_equal(after, kept) and after.dtype == before.dtype
    taken = len(everyones(plain)) - len(everyones(parts))
    assert taken == len(dataset.public) > 0


def test_a_client_with_public_examples_alone_is_named():
    dataset = made()._replace(public=np.array([3, 5, 9], np.int32))
    parts = [np.array(rows) for rows in ([3, 9], [1, 2])], [np.array([4])] * 2
    with pytest.raises(UserError, match="all 2 training examples of client 0 are pub"):
        public.withdraw(dataset, schemes.made(*parts))
    parts = [np.array([1])] * 2, [np.array([4]), np.array([5])]
    with pytest.raises(UserError, match="all 1 test examples of client 1 are public"):
        public.withdraw(dataset, schemes.made(*parts))


def test_without_public_examples_nothing_changes():
    dataset = made()
    plain = schemes.divide(dataset, dirichlet(0.5), clients=4)
    same = public.divide(dataset, dirichlet(0.5), clients=4)
    for a, b in zip(everyones(plain), everyones(same), strict=True):
        assert np.array_equal(a, b)
    assert public.load("spiral").public is None


def test_examples_of_another_set_are_public_and_change_no_partition():
    dataset, extra = made(), made(20, 4, seed=1)
    both = public.append(dataset, extra)
    assert np.array_equal(both.x[both.public], extra.x)
    assert np.array_equal(both.y[both.public], extra.y)
    for pooled in (True, False):
        options = {"clients": 4, "pooled": pooled}
        plain = schemes.divide(dataset, dirichlet(0.5), **options)
        parts = public.divide(both, dirichlet(0.5), **options)
        assert np.array_equal(everyones(plain), everyones(parts))


def test_a_file_can_be_the_public_source(tmp_path):
    own, other = tmp_path / "own.npz", tmp_path / "other.npz"
    for path, dataset in ((own, made()), (other, made(20, 4, seed=1))):
        part = slice(dataset.train_size), slice(dataset.train_size, None)
        x, y = dataset.x, dataset.y
        arrays = [x[part[0]], y[part[0]], x[part[1]], y[part[1]]]
        names = ("x_train", "y_train", "x_test", "y_test")
        np.savez(path, **dict(zip(names, arrays, strict=True)))
    dataset = public.load(f"npz:{own}", other=f"npz:{other}")
    assert np.array_equal(dataset.public, np.arange(240, 264))
    assert dataset.num_classes == 4


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (made(classes=3, name="other"), "number of classes 3, .* 'made' has 4"),
        (
            made(name="other")._replace(x=np.zeros((240, 3, 3, 1), np.uint8)),
            r"shape \(3, 3, 1\), .* \(2, 2, 1\)",
        ),
        (
            made(name="other")._replace(x=np.zeros((240, 2, 2, 1), np.float32)),
            "type float32, .* uint8",
        ),
    ],
    ids=["classes", "shape", "type"],
)
def test_another_set_must_be_of_the_same_form(extra, words):
    with pytest.raises(UserError, match=f"'other'.* {words}"):
        public.append(made(), extra)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"share": -0.1}, "public_share is -0.1"),
        ({"share": 1.0}, "public_share is 1.0"),
        ({"classes": 0.0}, "public_classes is 0.0"),
        ({"classes": 1.5}, "public_classes is 1.5"),
        ({"share": 0.9}, "60 examples, but 108 of each"),
    ],
)
def test_impossible_shares_are_named(wrong, words):
    with pytest.raises(UserError, match=words):
        chosen(**wrong)


def test_a_share_and_another_set_exclude_each_other():
    with pytest.raises(UserError, match="come from one of both"):
        public.load("spiral", share=0.1, other="spiral")


def test_a_configuration_makes_public_rows_of_the_pool():
    c = config.load("configs/refprotofl.py")
    config.check(c)
    exp = build.experiment(c, "cpu")
    examples = build.examples(exp.dataset)
    assert len(np.unique(examples.y[examples.public])) == 5
    assert abs(len(examples.public) - 0.01 * len(examples.y)) <= 5
    assert not np.intersect1d(examples.public, everyones(exp.partition)).size
    assert len(everyones(exp.partition)) == len(examples.y) - len(examples.public)


def test_other_configurations_have_no_public_rows():
    c = config.load("configs/local.py")
    assert build.examples(build.experiment(c, "cpu").dataset).public is None
