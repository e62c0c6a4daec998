"""Runs of arrays, read again."""

import jax
import numpy as np
import pytest
from rich.console import Console
from support import attacked, runs
from support.refusal import refused
from support.runs import records

import jaxproto


@pytest.mark.long
def test_arrays_are_found_again_by_a_longer_and_a_moved_run_of_the_same_bits(tmp_path):
    """With Adam, whose state is kept, clipping, and two epochs in a fixed order."""
    y = np.arange(60) % 3
    x = np.random.default_rng(0).normal(size=(60, 5)) + 3 * np.eye(5)[y]
    x, quiet = x.astype(np.float32), Console(quiet=True)
    fields = {"model__group": "mlp", "data__min_size": 5, "local__epochs": 2}
    fields |= {"optimizer__name": "adam", "local__order": "fixed", "eval_every": 1}
    fields |= {"local__short": "skip", "optimizer__clip_norm": 1.0}
    fields["local__optimizer_state"] = "keep"
    c = runs.small(arg="digits", local__batch_size=5, **fields)
    data = x[:40].tolist(), y[:40], x[40:], y[40:]

    def train(name, rounds, data=data):
        c.rounds = rounds
        attacked.begins(c)
        return jaxproto.run(c, tmp_path / name, quiet, data=data)

    with attacked.quickly():
        straight = train("straight", 2)
        train("shorter", 1)
        (tmp_path / "shorter").rename(tmp_path / "longer")
        longer = train("longer", 2)
    assert longer["dataset"] == straight["dataset"] and c.data.name == "digits"
    assert longer["dataset"].startswith("npz:arrays-")
    rows = records(tmp_path / "longer")
    assert rows == records(tmp_path / "straight") and rows[0]["loss"] > rows[1]["loss"]
    (tmp_path / "longer").rename(tmp_path / "moved")
    mine, other = (jaxproto.load(tmp_path / name) for name in ("moved", "straight"))
    for one, two in zip(mine.clients, other.clients, strict=True):
        jax.tree.map(np.testing.assert_array_equal, one.params, two.params)
    found = [row for client in mine.clients for part in client.data for row in part.x]
    assert {row.tobytes() for row in found} <= {row.tobytes() for row in x}
    with refused("data has 3 parts; give (x, y) or"):
        train("refused", 1, data=(x, y, x))
    assert not (tmp_path / "refused").exists()
