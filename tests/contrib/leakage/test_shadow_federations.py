"""Shadow federations say what an upload would be with and without an example."""

import numpy as np
import pytest
from support import runs
from support.refusal import refused

from jaxproto.contrib import leakage
from jaxproto.contrib.leakage import next_upload, scores, shadow_federations


def test_halves_are_disjoint_pairs_of_equal_size():
    inside = shadow_federations.halves(11, 6, np.random.default_rng(0))
    assert (inside.sum(0) == 3).all()  # each example is in half of the federations
    assert set(inside.sum(1)) == {5, 6} and len({*map(bytes, inside)}) == 6


def test_the_ratio_removes_how_hard_an_example_is():
    rng, size = np.random.default_rng(0), 400
    hardness = rng.normal(size=size) * 10  # hides the effect of 2 from a threshold
    member = np.arange(size) < size // 2
    inside = shadow_federations.halves(size, 64, rng)
    shadows = hardness + 2 * inside + rng.normal(size=inside.shape)
    target = hardness + 2 * member + rng.normal(size=size)
    ratio = shadow_federations.log_likelihood_ratio(target, shadows, inside)
    pair = ratio[member], ratio[~member]
    assert scores.auc(*pair) == pytest.approx(0.921, abs=0.03)  # of two unit normals
    assert scores.auc(target[member], target[~member]) < 0.65
    assert scores.tpr(*pair, 0.01) > 0.2
    # an example that a federation lacks may leave its class without a prototype
    shadows[~inside] = -np.inf
    target[~member] = -np.inf
    ratio = shadow_federations.log_likelihood_ratio(target, shadows, inside)
    assert scores.auc(ratio[member], ratio[~member]) > 0.99


@pytest.mark.long
@pytest.mark.parametrize("method", ["fedavg", "fedproto"])
def test_federations_train_on_their_half_and_find_members(method, tmp_path):
    """Clients train on half of their examples, many times."""
    fields = {"data__train_share": 0.5, "model__group": "mlp", "checkpoint_every": 1}
    c = runs.small(method, "digits", **fields, eval_every=1, local__epochs=10)
    runs.run(c, tmp_path)
    next = next_upload.next_round(tmp_path)
    shadows = shadow_federations.train_shadows(next, 4, 0)
    (shard,), (cohort,) = shadows.shards, next.run.exp.cohorts
    partition = next.run.exp.partition
    for i, s in ((0, 0), (2, 3)):
        row = cohort.ids.index(i)
        pool = np.concatenate([partition.train[i], partition.test[i]])
        rows = shard.index[s, row, : shard.size[s, row]]
        np.testing.assert_array_equal(rows, pool[shadows.inside[i][s]])
    asked = leakage.AttackRequest([str(tmp_path)], [0, 1, 2], shadows=16)
    rows = leakage.run_attack("lira", asked).rows
    found = {row["test"]: row for row in rows}
    assert set(found) == {"threshold", "LiRA"} and len({r["source"] for r in rows}) == 1
    assert found["LiRA"]["AUC"] > 0.55 and found["LiRA"]["low"] > 0.5
    cases = ({"shadows": 5}, "even number"), ({"broadcast": "crafted"}, "broadcasts")
    for changes, said in cases:
        with refused(said):
            leakage.run_attack("lira", asked._replace(**changes))
