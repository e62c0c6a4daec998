"""Public examples: which they are, and that no client has them."""

import numpy as np
import pytest

from jaxproto import config
from jaxproto.config import build
from jaxproto.data.partitions import public, schemes
from jaxproto.data.partitions.pfllib import pfllib_dirichlet
from jaxproto.data.partitions.scheme import dirichlet, iid
from jaxproto.data.source import assemble
from jaxproto.errors import UserError


def made(train=200, test=40, classes=4, seed=0, name="made"):
    rng = np.random.default_rng(seed)
    parts = [
        (rng.integers(0, 256, (n, 2, 2, 1), np.uint8), np.arange(n) % classes)
        for n in (train, test)
    ]
    return assemble(name, *parts)


def chosen(pooled=True, **how):
    how = {"share": 0.1, "classes": 0.5, "seed": 1, **how}
    return public.choose(made(), pooled=pooled, **how)


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
    source = chosen(pooled)
    parts = public.divide(source, scheme, clients=4, pooled=pooled)
    mine = np.unique(everyones(parts))
    assert not np.intersect1d(mine, source.public).size
    rest = np.setdiff1d(np.arange(len(source.y)), source.public)
    assert np.array_equal(mine, rest)


def test_the_official_test_part_stays_whole():
    source = chosen(pooled=False)
    parts = public.divide(source, iid(), clients=3, pooled=False)
    assert source.public.max() < source.train_size
    assert all(np.array_equal(rows, np.arange(200, 240)) for rows in parts.test)


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("scheme", [dirichlet(0.1), pfllib_dirichlet(0.1)])
def test_clients_are_those_of_a_run_without_public_examples_but_for_these(
    pooled, scheme
):
    """Methods with and without are compared on one division (RefProtoFL)."""
    source, how = chosen(pooled, share=0.02), {"clients": 4, "pooled": pooled}
    plain = schemes.divide(made(), scheme, **how)
    parts = public.divide(source, scheme, **how)
    for before_K, after_K in zip(plain, parts, strict=True):
        for before, after in zip(before_K, after_K, strict=True):
            kept = before[~np.isin(before, source.public)]
            assert np.array_equal(after, kept) and after.dtype == before.dtype
    taken = len(everyones(plain)) - len(everyones(parts))
    assert taken == len(source.public) > 0


def test_a_client_with_public_examples_alone_is_named():
    source = made()._replace(public=np.array([3, 5, 9], np.int32))
    parts = [np.array(rows) for rows in ([3, 9], [1, 2])], [np.array([4])] * 2
    with pytest.raises(UserError, match="all 2 training examples of client 0 are pub"):
        public.withdraw(source, schemes.made(*parts))
    parts = [np.array([1])] * 2, [np.array([4]), np.array([5])]
    with pytest.raises(UserError, match="all 1 test examples of client 1 are public"):
        public.withdraw(source, schemes.made(*parts))


def test_without_public_examples_nothing_changes():
    source = made()
    plain = schemes.divide(source, dirichlet(0.5), clients=4)
    same = public.divide(source, dirichlet(0.5), clients=4)
    for a, b in zip(everyones(plain), everyones(same), strict=True):
        assert np.array_equal(a, b)
    assert public.load("spiral").public is None


def test_examples_of_another_set_are_public_and_change_no_partition():
    source, extra = made(), made(20, 4, seed=1)
    both = public.append(source, extra)
    assert np.array_equal(both.x[both.public], extra.x)
    assert np.array_equal(both.y[both.public], extra.y)
    for pooled in (True, False):
        how = {"clients": 4, "pooled": pooled}
        plain = schemes.divide(source, dirichlet(0.5), **how)
        parts = public.divide(both, dirichlet(0.5), **how)
        assert np.array_equal(everyones(plain), everyones(parts))


def test_a_file_can_be_the_public_source(tmp_path):
    own, other = tmp_path / "own.npz", tmp_path / "other.npz"
    for path, source in ((own, made()), (other, made(20, 4, seed=1))):
        part = slice(source.train_size), slice(source.train_size, None)
        x, y = source.x, source.y
        arrays = [x[part[0]], y[part[0]], x[part[1]], y[part[1]]]
        names = ("x_train", "y_train", "x_test", "y_test")
        np.savez(path, **dict(zip(names, arrays, strict=True)))
    source = public.load(f"npz:{own}", other=f"npz:{other}")
    assert np.array_equal(source.public, np.arange(240, 264))
    assert source.num_classes == 4


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
    pool = build.pool(exp.source)
    assert len(np.unique(pool.y[pool.public])) == 5
    assert abs(len(pool.public) - 0.01 * len(pool.y)) <= 5
    assert not np.intersect1d(pool.public, everyones(exp.partition)).size
    assert len(everyones(exp.partition)) == len(pool.y) - len(pool.public)


def test_other_configurations_have_no_public_rows():
    c = config.load("configs/local.py")
    assert build.pool(build.experiment(c, "cpu").source).public is None
