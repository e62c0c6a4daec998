"""Checkpoints: what comes back, and what happens when processes and disks fail."""

import asyncio
from pathlib import Path
from typing import NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.every import check_every
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
    """Shapes are enough to read them."""
    state = many_kinds()
    checkpoint.save(tmp_path, 5, state)
    got = checkpoint.restore_latest(tmp_path, state)
    assert (got.round, got.notes) == (5, [])
    assert jax.tree.structure(got.state) == jax.tree.structure(state)
    assert bits(got.state) == bits(state)
    assert all(isinstance(x, jax.Array) for x in jax.tree.leaves(got.state))
    got = checkpoint.restore_latest(tmp_path, jax.eval_shape(many_kinds))
    assert bits(got.state) == bits(state)
    draw = jax.random.normal(got.state.y[2][0], (3,))
    assert bits(draw) == bits(jax.random.normal(state.y[2][0], (3,)))


def test_odd_floats_numbers_and_states_without_leaves_come_back_as_they_were(tmp_path):
    odd = np.array([0x7FC01234, 0x80000000, 0xFF800000], np.uint32).view(np.float32)
    checkpoint.save(tmp_path / "odd", 1, {"w": jnp.asarray(odd)})
    got = checkpoint.restore_latest(tmp_path / "odd", {"w": odd}).state
    assert bits(got) == bits({"w": odd})
    state = {"np": np.float64(0.1), "array": np.arange(3), "int": 3, "bool": True}
    checkpoint.save(tmp_path / "numbers", 1, state)
    got = checkpoint.restore_latest(tmp_path / "numbers", state).state
    assert (got["np"], got["int"], got["bool"]) == (np.float64(0.1), 3, True)
    assert type(got["int"]) is int and type(got["bool"]) is bool
    assert isinstance(got["array"], np.ndarray) and got["array"].dtype == np.int64
    for name, state in {"empty": (), "nodes": {"a": (), "b": None}}.items():
        checkpoint.save(tmp_path / name, 1, state)
        assert checkpoint.restore_latest(tmp_path / name, state).state == state
    assert checkpoint.restore_latest(tmp_path / "none", small(0)) is None
    assert not (tmp_path / "none").exists()


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_three_are_kept_and_a_sweep_leaves_what_could_not_be_used(tmp_path):
    for r in range(1, 6):
        checkpoint.save(tmp_path, r, small(r))
    assert checkpoint.rounds(tmp_path) == [3, 4, 5]
    assert names(tmp_path) == ["3", "4", "5"]
    assert bits(checkpoint.restore_latest(tmp_path, small(0)).state) == bits(small(5))
    (tmp_path / "2").mkdir()
    (tmp_path / "7.partial").write_text("")
    for newest, left in ((4, ["2", "3", "4", "5"]), (5, ["3", "4", "5"])):
        checkpoint.prune(tmp_path, newest)
        assert names(tmp_path) == left


def test_donating_the_saved_or_the_restored_state_changes_nothing(tmp_path):
    step = jax.jit(lambda s: jax.tree.map(lambda x: x + 1, s), donate_argnums=0)
    state = step(small(0))
    checkpoint.save(tmp_path, 1, state)
    expected = bits(step(state))
    for _ in range(2):
        got = checkpoint.restore_latest(tmp_path, small(0)).state
        assert bits(step(got)) == expected


def test_saving_and_reading_work_inside_a_running_event_loop(tmp_path):
    async def notebook():
        checkpoint.save(tmp_path, 1, small(1))
        return checkpoint.restore_latest(tmp_path, small(0))

    assert bits(asyncio.run(notebook()).state) == bits(small(1))


def missing(file):
    file.unlink()


def truncated(file):
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def flipped(file):
    data = bytearray(file.read_bytes())
    data[2 * len(data) // 3] ^= 4
    file.write_bytes(data)


@pytest.mark.parametrize("damage", [missing, truncated, flipped])
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


def test_flipped_bits_of_the_manifest_are_noticed(two):
    file = two / "20" / "manifest.json"
    whole = file.read_bytes()
    for i in range(0, len(whole), 17):
        bad = bytearray(whole)
        bad[i] ^= 1 << i % 8
        file.write_bytes(bad)
        got = checkpoint.restore_latest(two, small(0))
        assert bits(got.state) == bits(small(got.round))
        assert got.round == 10 or bad[i : i + 1].isspace()


def test_after_a_fallback_the_damaged_checkpoint_is_replaced(two):
    missing(two / "20" / "manifest.json")
    assert checkpoint.restore_latest(two, small(0)).round == 10
    checkpoint.save(two, 15, small(15))
    assert checkpoint.rounds(two) == [10, 15]
    for file in [p for p in (two / "10").rglob("*") if p.is_file()]:
        flipped(file)  # an older one
    checkpoint.save(two, 20, small(20))
    got = checkpoint.restore_latest(two, small(0))
    assert (got.round, got.notes) == (20, []) and bits(got.state) == bits(small(20))


def test_if_all_are_damaged_it_says_so_and_deletes_nothing(two):
    truncated(two / "10" / "manifest.json")
    missing(two / "20" / "state" / "_METADATA")
    before = files(two)
    with refused("every checkpoint", two, "_METADATA is missing", "move it away"):
        checkpoint.restore_latest(two, small(0))
    assert files(two) == before


OTHER_TREES = [
    ({"w": jnp.zeros((3, 5)), "n": jnp.uint32(0)}, "float32[3, 4] there and float32[3"),
    ({"w": jnp.zeros((3, 4)), "n": jnp.int32(0)}, "['n'] is uint32[] there and int32"),
    ({"w": jnp.zeros((3, 4))}, "['n'] is uint32[] there and absent here"),
    ({**small(0), "z": jnp.zeros(2)}, "['z'] is absent there and float32[2]"),
]


def test_another_tree_is_refused_with_leaf_and_both_shapes(two):
    def check(like, words):
        with refused("round 20", words, "--workdir"):
            checkpoint.restore_latest(two, like)

    check_every(OTHER_TREES, check)


def test_what_is_half_written_or_has_another_name_is_never_read(two):
    (two / "20").rename(two / "50")
    got = checkpoint.restore_latest(two, small(0))
    assert got.round == 10 and "round 50" in got.notes[0]
    assert "is that of round 20 under another name; going on from" in got.notes[0]
    (two / "50").rename(two / "20.partial")
    missing(two / "20.partial" / "manifest.json")
    got = checkpoint.restore_latest(two, small(0))
    assert (got.round, got.notes) == (10, [])
    checkpoint.save(two, 30, small(30))
    assert names(two) == ["10", "30"]


def test_a_checkpoint_of_another_run_is_passed_over_with_both_values(tmp_path):
    for r in (1, 2):
        checkpoint.save(tmp_path, r, small(r), {"seed": r, "old": 0})
    got = checkpoint.restore_latest(tmp_path, small(0), {"seed": 1, "new": 0})
    assert got.round == 1
    assert "is of another run (seed: 2 there, 1 here)" in got.notes[0]
    with refused("no checkpoint in ", " can be used: that of r"):
        checkpoint.restore_latest(tmp_path, small(0), {"seed": 3})


class Seen(NamedTuple):  # by a transform in the last round
    watched: dict


class Other(NamedTuple):  # has a field that a run needs
    seen: dict


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
    with refused("leaf .x.seen['a'] is absent there"):
        checkpoint.restore_latest(tmp_path, Pair(Other({"a": jnp.zeros(2)}), small(0)))
