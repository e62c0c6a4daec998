"""Attacks find what is certainly there, and nothing where nothing is."""

import dataclasses
import importlib.util
import json

import jax.numpy as jnp
import numpy as np
import pytest
from support import runs
from support.every import check_every

from jaxproto import cli
from jaxproto.contrib import leakage
from jaxproto.contrib.leakage import (
    attack_cases,
    attacker,
    class_inference,
    crafted_broadcast,
    figures,
    gradient_inversion,
    head_change,
    joined_rounds,
    label_inference,
    membership,
    next_upload,
    prototype_inversion,
    scores,
)
from jaxproto.errors import UserError
from jaxproto.types import Protos

pytestmark = pytest.mark.long
SAVED = {"checkpoint_every": 1, "eval_every": 1, "model__group": "mlp"}


def run(method, path, **changes):
    runs.run(runs.small(method, "digits", **SAVED, **changes), path)
    return path


@pytest.fixture(scope="module")
def fedavg(tmp_path_factory):
    return run("fedavg", tmp_path_factory.mktemp("runs") / "fedavg", data__alpha=0.2)


@pytest.fixture(scope="module")
def tinyproto(tmp_path_factory):
    return run("tinyproto", tmp_path_factory.mktemp("runs") / "tinyproto")


@pytest.fixture(scope="module")
def averaged(fedavg):
    """The next round of FedAvg, its first client, and what the attacker has."""
    next = next_upload.next_round(fedavg)
    has = attacker.attacker_knowledge(next.run.exp, 0, 0)
    return next, next_upload.upload(next, 0), has


def sent(made, has, noise=0.0, body=None, messages=None):
    messages = messages or next_upload.on_the_wire(made, "float32", noise, 0)
    body = made.stages.trained if body is None else body
    return attack_cases.AttackCase(made, messages, has, body, "float32", 0.0, 0)


def test_labels_are_exact_of_one_example_and_where_the_network_says_nothing(averaged):
    true = np.array([0, 0, 0, 2, 2, 4, 4, 4])
    push = np.bincount(true, minlength=5) / 8 - 0.2  # the counts less a constant
    found = label_inference.restore_labels(push, np.full((5, 5), 0.2), 8)
    np.testing.assert_array_equal(found, true)
    next, _, has = averaged
    for id in range(3):
        made = next_upload.upload(next, id, 1, 1)
        case = sent(made, has)
        change = head_change.head_change(made, case.messages[1])
        push = head_change.push(made, change, 1)
        said = label_inference.predictions(case, made.stages.received.params)
        y = next.run.exp.dataset.y[made.rows]
        np.testing.assert_array_equal(label_inference.restore_labels(push, said, 1), y)


def test_one_example_comes_back_from_its_update(averaged, monkeypatch):
    monkeypatch.setattr(gradient_inversion, "ITERATIONS", 301)
    next, _, has = averaged
    exp, made = next.run.exp, next_upload.upload(next, 0, 1, 1)
    task = gradient_inversion.AttackTask(exp.method, next.local.opt, exp.cohorts[0].net)

    def inverted(case):
        return gradient_inversion.invert_update(task, case, (1, 1))

    row, (images, _) = inverted(sent(made, has))
    assert row["psnr"] > row["psnr of public mean"] + 3 and row["labels right"] == 1
    assert images["found"].shape == images["client's"].shape == (1, 8, 8, 1)
    rest, _ = inverted(sent(made, has, noise=30.0))
    assert rest["psnr"] < row["psnr"] - 3


def alone(made, has):
    """A case whose prototypes are of one example each, and its members."""
    own_x, own_y = has.training
    y = np.arange(10)
    x = np.stack([(*own_x[own_y == c], own_x[0])[0] for c in y])
    others = tuple(a[np.argsort(has.public[1], kind="stable")] for a in has.public)
    has = has._replace(members=(x, y), outsiders=others)
    body = made.stages.trained
    feat = made.net.apply(body.params["net"], body.norm["net"], x, False).feat
    return sent(made, has, messages=((), Protos(feat, jnp.ones(10))))


def test_a_prototype_of_one_example_tells_it_apart_and_its_image_is_found(averaged):
    case = alone(*averaged[1:])
    exact = membership.by_prototype(case)
    assert scores.auc(*exact) == 1.0
    low, high = scores.auc_interval(1.0, *map(len, exact))
    assert 0.5 < low < 1.0 == high
    goal = prototype_inversion.prototype_target(case)
    start = attacker.class_means(case.known.public, 10)
    true, embedding = case.known.members[0], case.captured.embedding
    given = embedding, case.body, goal.mean, goal.mask, start
    found, _ = prototype_inversion.optimise_images(*given, tv=0.0)
    better = scores.correlation(np.asarray(found), true)
    assert better > scores.correlation(start, true) + 0.03


def test_scores_of_members_and_images():
    rng, inside = np.random.default_rng(0), 0
    for _ in range(200):
        found = scores.auc(rng.normal(size=40), rng.normal(size=60))
        low, high = scores.auc_interval(found, 40, 60)
        inside += low <= 0.5 <= high
    assert 180 <= inside < 200  # 95%
    others = np.arange(1000.0)
    members = np.array([500.0, 988.5, 989.0, 989.5, 998.5, 999.0, 2000.0, -np.inf])
    assert scores.tpr(members, others, 0.01) == 4 / 8  # above 989; ten others pass
    assert scores.tpr(members, others, 0.001) == 3 / 8  # above 998; one other passes
    x = rng.uniform(-1, 1, (5, 8, 8, 1)).astype(np.float32)
    assert scores.ssim(x, x) > 0.999 and scores.psnr(x, x) > 60
    assert scores.ssim(x, -x) < 0.1
    assert scores.psnr(x, x + 0.2 * np.sign(-x)) == pytest.approx(20, abs=0.01)
    np.testing.assert_array_equal(scores.match_images(x[::-1], x), x)


def test_the_upload_is_that_of_the_next_round_of_the_run(tmp_path):
    """Compares with a run that continues, to the last bit that compilers agree on."""
    next = next_upload.next_round(run("fedproto", tmp_path / "run", rounds=1))
    made = next_upload.upload(next, 1)
    longer = run("fedproto", tmp_path / "run", rounds=2)
    then = next_upload.next_round(longer).run
    number, cohort = next_upload.cohort_and_index(then, 1)
    memory = then.state.clients[number].memory
    after = np.asarray(memory.mean)[cohort.ids.index(1)]
    np.testing.assert_allclose(made.stages.up.mean, after, rtol=1e-4, atol=1e-5)


def test_the_classes_of_prototypes_are_exact_and_counts_show_in_their_length(tinyproto):
    next = next_upload.next_round(tinyproto)
    made = next_upload.upload(next, 0)
    has = attacker.attacker_knowledge(next.run.exp, 0, 0)
    true = next.run.exp.counts.train[0]
    found = class_inference.class_evidence(sent(made, has))
    rows, length = (class_inference.score_classes(one, true) for one in found)
    assert rows["precision"] == rows["recall"] == 1 and rows["count error"] is None
    assert length["source"] == "length"
    assert length["count error"] < 0.3 < length["error of equal counts"]


def test_the_command_writes_tables_and_pictures(tinyproto, fedavg, tmp_path, capsys):
    arguments = ["leak", "membership", tinyproto, fedavg, "--out", tmp_path / "out"]
    options = ["--clients=0", "--formats=float32,int8", "--noise=0,1"]
    with pytest.raises(SystemExit) as end:
        cli.main([*map(str, arguments), *options])
    assert not end.value.code
    table = json.loads((tmp_path / "out" / "membership.json").read_text())
    assert len(table["rows"]) == 8
    found = {(r["method"], r["source"]) for r in table["rows"]}
    assert found == {("tinyproto", "prototypes"), ("fedavg", "weights")}
    for row in table["rows"]:
        assert row["low"] <= row["AUC"] <= row["high"]
    assert (tmp_path / "out" / "membership.png").stat().st_size > 1000
    assert "fedavg" in capsys.readouterr().out


def test_what_cannot_be_is_one_line_and_what_a_method_does_not_send_a_note(fedavg):
    def check(argument, said):
        with pytest.raises(SystemExit) as end:
            cli.main(["leak", "updates", str(fedavg), argument])
        error = str(end.value.code)
        assert error.startswith("error: ") and said in error and "\n" not in error

    cases = [
        ("--clients=9", "there is no client 9"),
        ("--formats=float31", "float31"),
        ("--noise=-1", "noise is"),
        ("--sizes=round,0x1", "examples x steps or round"),
        ("--clients=x", "clients is 'x'"),
        ("--sizes=500x500", "training examples, fewer than 500 x 500"),
    ]
    check_every(cases, check)
    made = leakage.run_attack("prototypes", leakage.AttackRequest([str(fedavg)], [0]))
    assert not made.rows
    assert "fedavg: sends no prototypes of its own data." in made.view.notes


def test_two_rounds_give_away_an_example_if_the_network_hardly_moves(tmp_path):
    y, rows = np.array([3, 1, 3, 5, 1]), np.array([10, 11, 12, 13, 14])
    gained = joined_rounds.gained_rows(y, rows)
    assert gained.tolist() == [14, 12]  # the last of each class with two
    path = run("fedproto", tmp_path, optimizer__learning_rate=1e-5)
    asked = leakage.AttackRequest([str(path)], [0, 1], noises=[0.0, 1.0])
    exact, noisy = leakage.run_attack("joined", asked).rows
    assert exact["AUC"] > 0.99 > 0.8 > exact["AUC of one round"]
    assert exact["psnr"] > exact["psnr of public mean"] + 1
    assert noisy["AUC"] < 0.8
    members = [row["members"] for row in (exact, noisy)]
    assert members[0] == members[1] > 10  # one of each class and client
    next = next_upload.next_round(path)
    crafted = crafted_broadcast.with_crafted(next, 0)
    rolled = np.roll(next.down.mean, 1, axis=0)
    np.testing.assert_array_equal(crafted.down.mean, rolled)


PRIVATE = {"privacy__unit": "example"}
needs_accounting = pytest.mark.skipif(
    importlib.util.find_spec("dp_accounting") is None, reason="extra `privacy`"
)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """FedProto with noise that hides nothing, next round."""
    path = tmp_path_factory.mktemp("runs") / "quiet"
    run("fedproto", path, **PRIVATE, privacy__noise=1e-4, privacy__clip=100.0)
    return path, next_upload.next_round(path)


@pytest.fixture(scope="module")
def loud(tmp_path_factory):
    """Trains FedProto with noise that drowns the uploads."""
    path = tmp_path_factory.mktemp("runs") / "loud"
    return run("fedproto", path, **PRIVATE, privacy__noise=1e4, privacy__clip=1e-3)


@needs_accounting
def test_where_noise_hides_every_class_membership_is_guessing_and_no_image_sought(loud):
    made = next_upload.upload(next_upload.next_round(loud), 0)
    has = attacker.attacker_knowledge(made.next.run.exp, 0, 0)
    case = sent(made, has)
    found = membership.by_prototype(case)
    assert not prototype_inversion.prototype_target(case).present.any()
    assert scores.auc(*found) == 0.5
    asked = leakage.AttackRequest([str(loud)], clients=[0])
    made = leakage.run_attack("prototypes", asked)
    assert [row["classes"] for row in made.rows] == [0, 0] and made.images is None
    assert all(row["psnr"] is None for row in made.rows)
    assert figures.draw_attack("prototypes", made, loud)[0].stat().st_size


@needs_accounting
def test_what_the_server_knew_before_has_no_noise(tmp_path):
    """Else the noise of an upload would drop out of its change."""
    fields = {"privacy__unit": "client", "privacy__clip": 0.1}
    path = run("fedavg", tmp_path / "run", **fields)
    made = next_upload.upload(next_upload.next_round(path), 0)
    before = made.stages.received.params["net"]["head"]["bias"]
    idle = made.stages.idle.params["net"]["head"]["bias"]
    np.testing.assert_array_equal(idle, before)
    assert (made.stages.up.params["net"]["head"]["bias"] != before).all()


@needs_accounting
def test_runs_that_differ_in_their_seed_are_one_row_in_the_order_of_epsilon(
    quiet, loud, tmp_path
):
    path, next = quiet
    c = next.run.config.copy_and_resolve_references()
    c.seed = 1
    runs.run(c, tmp_path / "other")
    asked = leakage.AttackRequest([str(path), str(tmp_path / "other")], clients=[0, 1])
    (row,) = leakage.run_attack("membership", asked).rows
    one = asked._replace(workdirs=[str(path)])
    (alone,) = leakage.run_attack("membership", one).rows
    assert row["members"] == alone["members"]  # an example of both runs counts once
    assert row["unit"] == "example" and row["epsilon"] == alone["epsilon"] > 100
    both = leakage.AttackRequest([str(path), str(loud)], clients=[0])
    epsilons = [row["epsilon"] for row in leakage.run_attack("membership", both).rows]
    assert len(epsilons) == 2 and epsilons[0] < epsilons[1]


@needs_accounting
def test_another_body_is_that_of_a_client_of_the_same_architecture(quiet):
    made = next_upload.upload(quiet[1], 0)
    own, other = (attack_cases.attacker_network(made, b) for b in attack_cases.BODIES)
    kernel = [b.params["net"]["head"]["kernel"] for b in (own, other)]
    assert int(own.id) == 0 != int(other.id) and not np.allclose(*kernel)
    has = attacker.attacker_knowledge(quiet[1].run.exp, 0, 0)
    scored = (membership.by_prototype(sent(made, has, body=b)) for b in (own, other))
    far = [np.median(-members) for members, _ in scored]
    assert far[0] < far[1] / 2  # prototypes are near in the space they were made in
    run = made.next.run
    cohorts = (dataclasses.replace(run.exp.cohorts[0], ids=(0,)),)
    run = run._replace(exp=run.exp._replace(cohorts=cohorts))
    alone = made._replace(next=made.next._replace(run=run))
    with pytest.raises(UserError, match="the only one with the architecture"):
        attack_cases.attacker_network(alone, "other")
