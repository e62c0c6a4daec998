"""Two rounds of prototypes give away the example that is in one of them."""

import numpy as np
import pytest
from support import runs

from jaxproto.contrib import leakage
from jaxproto.contrib.leakage import crafted_broadcast, joined_rounds, next_upload

pytestmark = pytest.mark.long


def test_the_last_row_of_each_class_with_two_examples_is_gained():
    y, rows = np.array([3, 1, 3, 5, 1]), np.array([10, 11, 12, 13, 14])
    assert joined_rounds.gained_rows(y, rows).tolist() == [14, 12]


def test_the_gained_example_is_found_if_the_network_hardly_moves(tmp_path):
    fields = {"model__group": "mlp", "checkpoint_every": 1, "eval_every": 1}
    c = runs.small("fedproto", "digits", **fields)
    c.optimizer.learning_rate = 1e-5
    runs.run(c, tmp_path / "run")
    asked = leakage.AttackRequest([str(tmp_path / "run")], [0, 1], noises=[0.0, 1.0])
    exact, noisy = leakage.run_attack("joined", asked).rows
    assert exact["AUC"] > 0.99 > 0.8 > exact["AUC of one round"]
    assert exact["psnr"] > exact["psnr of public mean"] + 1
    assert noisy["AUC"] < 0.8
    members = [row["members"] for row in (exact, noisy)]
    assert members[0] == members[1] > 10  # one of each class and client
    next = next_upload.next_round(tmp_path / "run")
    crafted = crafted_broadcast.with_crafted(next, 0)
    rolled = np.roll(next.down.mean, 1, axis=0)
    np.testing.assert_array_equal(crafted.down.mean, rolled)
