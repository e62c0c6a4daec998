"""Checkpoints: what comes back, and what happens when processes and disks fail."""

from pathlib import Path
from typing import NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.hostile_folders import cut, flip
from support.refusal import refused

from jaxproto.storage import checkpoint


@flax.struct.dataclass
class Struct:  # as the library's own state types
    a: jax.Array
    b: tuple


class Pair(NamedTuple):  # as the state of a server or an optimiser
    x: object
    y: object


def small(r):
    """A state that tells its round."""
    return {"w": jnp.arange(12.0).reshape(3, 4) + r, "n": jnp.uint32(r)}


def many_kinds():
    """One leaf of each kind that a state may hold."""
    key = jax.random.key(3)
    dtypes = (jnp.float32, jnp.bfloat16, jnp.float16, jnp.uint32, jnp.int8, jnp.bool_)
    arrays = [jnp.arange(6).reshape(2, 3).astype(d) for d in dtypes]
    return Pair(
        x={"empty tuple": (), "none": None, "a/b": Struct(arrays[0], tuple(arrays))},
        y=[jnp.int32(7), jnp.zeros((0, 4)), (key, jax.random.split(key, 4))],
    )


def bits(tree):
    """Every leaf as dtype, shape and bytes."""
    leaves = []
    for leaf in jax.tree.leaves(tree):
        if jnp.issubdtype(getattr(leaf, "dtype", int), jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        array = np.asarray(leaf)
        leaves.append((str(array.dtype), array.shape, array.tobytes()))
    return leaves


def files(folder):
    rows = sorted(p for p in Path(folder).rglob("*") if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in rows}


@pytest.fixture
def two(tmp_path):
    for r in (10, 20):
        checkpoint.save(tmp_path / "c", r, small(r))
    return tmp_path / "c"


def test_every_kind_of_leaf_and_node_comes_back_bit_for_bit(tmp_path):
    """Shapes are enough to read arrays."""
    state = many_kinds()
    checkpoint.save(tmp_path / "arrays", 5, state)
    shapes = jax.eval_shape(many_kinds)
    got = checkpoint.restore_latest(tmp_path / "arrays", shapes)
    assert (got.round, got.notes) == (5, [])
    assert jax.tree.structure(got.state) == jax.tree.structure(state)
    assert bits(got.state) == bits(state)
    for name, state in {"none": {"a": (), "b": None}, "numbers": {"n": 3}}.items():
        checkpoint.save(tmp_path / name, 1, state)
        assert checkpoint.restore_latest(tmp_path / name, state).state == state


def test_the_newest_three_are_kept_and_unusable_later_ones_until_a_save(tmp_path):
    for r in range(1, 6):
        checkpoint.save(tmp_path, r, small(r))
    (tmp_path / "7.partial").write_text("")
    checkpoint.prune(tmp_path, 4)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["3", "4", "5"]


def truncated(file):
    file.write_bytes(cut(file.read_bytes(), file.stat().st_size // 2))


def flipped(file):
    file.write_bytes(flip(file.read_bytes(), 16 * file.stat().st_size // 3))


@pytest.mark.parametrize("damage", [Path.unlink, truncated, flipped])
def test_any_damaged_file_sends_the_run_back_one_checkpoint(two, capfd, caplog, damage):
    whole = files(two / "20")
    assert len(whole) > 5
    for name, data in whole.items():
        damage(two / "20" / name)
        got = checkpoint.restore_latest(two, small(0))
        assert got.round == 10 and bits(got.state) == bits(small(10))
        (note,) = got.notes
        assert "round 20" in note and "round 10" in note and Path(name).name in note
        (two / "20" / name).write_bytes(data)
    assert checkpoint.restore_latest(two, small(0)).round == 20
    assert capfd.readouterr() == ("", "") and not caplog.text  # of Orbax


def test_another_tree_or_another_name_is_refused(two):
    for like, words in (
        ({**small(0), "w": jnp.zeros((3, 5))}, "float32[3, 4] there and float32[3, 5]"),
        ({"w": jnp.zeros((3, 4))}, "['n'] is uint32[] there and absent here"),
    ):
        with refused("round 20", words, "--workdir"):
            checkpoint.restore_latest(two, like)
    (two / "20").rename(two / "50")
    got = checkpoint.restore_latest(two, small(0))
    assert got.round == 10
    assert "is that of round 20 under another name; going on from" in got.notes[0]


class Seen(NamedTuple):  # by a transform in the last round
    watched: dict


def test_what_was_only_watched_may_be_absent_on_either_side(tmp_path):
    there = Pair(Seen({"old": jnp.float32(3), "both": jnp.float32(4)}), small(1))
    checkpoint.save(tmp_path, 1, there)
    new = {"both": jnp.float32(0), "new": np.zeros(2), "newer": jnp.float32(0)}
    state = checkpoint.restore_latest(tmp_path, Pair(Seen(new), small(0))).state
    assert bits(state.y) == bits(small(1))
    seen = state.x.watched
    assert seen["both"] == 4 and np.isnan(seen["newer"])
    assert np.isnan(seen["new"]).tolist() == [True, True]
    assert checkpoint.restore_latest(tmp_path, Pair((), small(0))).state.x == ()
