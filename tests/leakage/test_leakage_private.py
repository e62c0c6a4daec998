"""Attacks on runs under differential privacy, over seeds, and with another body."""

import importlib.util

import numpy as np
import pytest
from support import runs

from jaxproto import leakage
from jaxproto.errors import UserError
from jaxproto.leakage import (
    classes,
    drawing,
    inversion,
    known,
    measured,
    membership,
    uploads,
)
from jaxproto.leakage.scores import auc

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        importlib.util.find_spec("dp_accounting") is None, reason="extra `privacy`"
    ),
]
SAVED = {"checkpoint_every": 1, "eval_every": 1, "model__group": "mlp", "rounds": 1}


def run(method, unit, path, **changes):
    fields = {"privacy__unit": unit, **SAVED, **changes}
    runs.run(runs.small(method, "digits", **fields), path)
    return path


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """FedProto with noise that hides nothing, next round."""
    path = tmp_path_factory.mktemp("runs") / "quiet"
    run("fedproto", "example", path, privacy__noise=1e-4, privacy__clip=100.0)
    return path, uploads.next_round(path)


@pytest.fixture(scope="module")
def loud(tmp_path_factory):
    """The same of which nothing is left."""
    path = tmp_path_factory.mktemp("runs") / "loud"
    return run("fedproto", "example", path, privacy__noise=1e4, privacy__clip=1e-3)


def sent(made):
    return uploads.sent(made, "float32", 0.0, 0)


def test_rows_with_a_column_of_weights_are_read_as_means(quiet):
    made = uploads.upload(quiet[1], 0)
    goal = inversion.target(made, sent(made))
    own = made.stages.trained.memory
    held = np.asarray(own.count) > 0
    np.testing.assert_array_equal(goal.there, held)
    np.testing.assert_allclose(goal.mean[held], own.mean[held], rtol=0.02, atol=0.02)
    assert not goal.scaled
    has = known.known(quiet[1].run.exp, 0, 0)
    (rows,) = classes.said(made, sent(made), has, made.stages.trained)
    np.testing.assert_array_equal(rows.there, held)


def test_where_noise_hides_every_class_membership_is_guessing_and_no_image_sought(loud):
    made = uploads.upload(uploads.next_round(loud), 0)
    has = known.known(made.next.run.exp, 0, 0)
    found = membership.by_prototype(made, sent(made), has, made.stages.trained)
    assert not inversion.target(made, sent(made)).there.any()
    assert auc(*found) == 0.5
    asked = leakage.Asked([str(loud)], clients=[0])
    made = leakage.measure("prototypes", asked)
    assert [row["classes"] for row in made.rows] == [0, 0] and made.images is None
    assert all(row["psnr"] is None for row in made.rows)
    assert drawing.draw("prototypes", made, loud)[0].stat().st_size


def test_what_the_server_knew_before_has_no_noise(tmp_path):
    """Else the noise of an upload would drop out of its change."""
    path = run("fedavg", "client", tmp_path / "run", privacy__clip=0.1)
    made = uploads.upload(uploads.next_round(path), 0)
    before = made.stages.received.params["net"]["head"]["bias"]
    np.testing.assert_array_equal(
        made.stages.idle.params["net"]["head"]["bias"], before
    )
    assert (made.stages.up.params["net"]["head"]["bias"] != before).all()


def test_runs_that_differ_in_their_seed_are_one_row_in_the_order_of_epsilon(
    quiet, loud, tmp_path
):
    path, next = quiet
    c = next.run.config.copy_and_resolve_references()
    c.seed = 1
    runs.run(c, tmp_path / "other")
    asked = leakage.Asked([str(path), str(tmp_path / "other")], clients=[0, 1])
    (row,) = leakage.measure("membership", asked).rows
    alone = leakage.measure("membership", asked._replace(workdirs=[str(path)])).rows[0]
    assert row["members"] == 2 * alone["members"]
    assert row["unit"] == "example" and row["epsilon"] == alone["epsilon"] > 100
    both = leakage.Asked([str(path), str(loud)], clients=[0])
    epsilons = [row["epsilon"] for row in leakage.measure("membership", both).rows]
    assert len(epsilons) == 2 and epsilons[0] < epsilons[1]


def test_another_body_is_that_of_a_client_of_the_same_architecture(quiet):
    made = uploads.upload(quiet[1], 0)
    own, other = (measured.body_of(made, which) for which in measured.BODIES)
    kernel = [b.params["net"]["head"]["kernel"] for b in (own, other)]
    assert int(own.id) == 0 != int(other.id) and not np.allclose(*kernel)
    has = known.known(quiet[1].run.exp, 0, 0)
    scored = [membership.by_prototype(made, sent(made), has, b) for b in (own, other)]
    far = [np.median(-members) for members, _ in scored]
    assert far[0] < far[1] / 2  # prototypes are near in the space they were made in
    run = made.next.run
    cohorts = (run.exp.cohorts[0]._replace(ids=(0,)),)
    run = run._replace(exp=run.exp._replace(cohorts=cohorts))
    alone = made._replace(next=made.next._replace(run=run))
    with pytest.raises(UserError, match="the only one with the architecture"):
        measured.body_of(alone, "other")
