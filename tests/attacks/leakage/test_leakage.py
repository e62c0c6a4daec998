"""Attacks find what is certainly there, and nothing where nothing is."""

import dataclasses
import json
from functools import partial

import chex
import numpy as np
import pytest
from support import runs
from support.every import check_every
from support.refusal import refused

from jaxproto import cli
from jaxproto.attacks import leakage
from jaxproto.attacks.leakage import (
    attack_cases,
    attacker,
    class_inference,
    crafted_broadcast,
    figures,
    gradient_inversion,
    head_change,
    label_inference,
    membership,
    next_upload,
    prototype_inversion,
    scores,
    shadow_federations,
)
from jaxproto.features.privacy import ledger as privacy_ledger

pytestmark = pytest.mark.long
SAVED = {"checkpoint_every": 1, "eval_every": 1}


def run(method, path, **changes):
    runs.run(runs.digits(method, **SAVED, **changes), path)
    return path


def trained(method, **changes):
    """A fixture of the folder of a run."""
    make = partial(run, method, **changes)
    return pytest.fixture(scope="module")(
        lambda tmp_path_factory: make(tmp_path_factory.mktemp("run"))
    )


fedavg = trained("fedavg", data__alpha=0.2)
tinyproto = trained("tinyproto")
QUIET = {"privacy__unit": "example", "privacy__noise": 1e-4, "privacy__clip": 100.0}
quiet_run = trained("fedproto", **QUIET)  # its noise hides nothing
loud = trained("fedproto", **QUIET | {"privacy__noise": 1e4, "privacy__clip": 1e-3})


@pytest.fixture(scope="module")
def quiet(quiet_run):
    return quiet_run, next_upload.next_round(quiet_run)


def sent(made, has, noise=0.0, body=None):
    messages = next_upload.on_the_wire(made, "float32", noise, 0)
    body = made.stages.trained if body is None else body
    return attack_cases.AttackCase(made, messages, has, body, "float32", 0.0, 0)


def test_one_example_comes_back_from_its_update(fedavg, monkeypatch):
    monkeypatch.setattr(gradient_inversion, "ITERATIONS", 301)
    next = next_upload.next_round(fedavg)
    exp, made = next.run.exp, next_upload.upload(next, 0, 1, 1)
    has = attacker.attacker_knowledge(exp, 0, 0)
    task = gradient_inversion.AttackTask(exp.method, next.local.opt, exp.cohorts[0].net)

    def inverted(case):
        return gradient_inversion.invert_update(task, case, (1, 1))

    row, (images, _) = inverted(sent(made, has))
    assert row["psnr"] > row["psnr of public mean"] + 3 and row["labels right"] == 1
    assert images["found"].shape == images["client's"].shape == (1, 8, 8, 1)
    rest, _ = inverted(sent(made, has, noise=30.0))
    assert rest["psnr"] < row["psnr"] - 3


def test_labels_follow_from_counts_where_the_network_says_nothing():
    true = np.array([0, 0, 0, 2, 2, 4, 4, 4])
    push = np.bincount(true, minlength=5) / 8 - 0.2  # the counts less a constant
    found = label_inference.restore_labels(push, np.full((5, 5), 0.2), 8)
    np.testing.assert_array_equal(found, true)


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
    assert scores.ssim(x, x) > 0.999 and scores.ssim(x, -x) < 0.1
    assert scores.psnr(x, x + 0.2 * np.sign(-x)) == pytest.approx(20, abs=0.01)
    np.testing.assert_array_equal(scores.match_images(x[::-1], x), x)
    nobody = attacker.AttackerKnowledge(*[(x[:0], np.zeros(0, int))] * 5)
    assert prototype_inversion.nearest_is_own(x, np.arange(5), nobody) is None


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


@pytest.mark.parametrize("method", ["lg_fedavg", "fednova", "scaffold"])
def test_the_last_layer_shows_in_an_upload_of_a_head_or_of_changes(method, tmp_path):
    made = next_upload.upload(next_upload.next_round(run(method, tmp_path)), 0)
    stages = made.stages
    before, after = stages.received.params["net"], stages.trained.params["net"]
    moved = after["head"]["bias"] - before["head"]["bias"]
    found = head_change.head_change(made, stages.up)
    np.testing.assert_allclose(found.bias, moved, rtol=1e-3, atol=1e-6)
    network = next_upload.network(made, stages.up)
    assert (network is None) == (method == "lg_fedavg")
    if network:
        chex.assert_trees_all_close(network["net"], after, rtol=1e-3, atol=1e-6)


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


def test_a_whole_round_gives_training_images_back_but_not_in_int8(tmp_path):
    path = run("fedavg", tmp_path, data__clients=10)
    given = [str(path)], [0, 1, 2], ["float32", "int8"]
    asked = leakage.AttackRequest(*given, sizes=[attack_cases.ROUND])
    exact, coarse = leakage.run_attack("updates", asked).rows
    crafted, _ = leakage.run_attack("updates", asked._replace(broadcast="crafted")).rows
    assert exact["size"] == "round" and exact["kept"] == exact["true"] > 0
    assert coarse["images back"] == coarse["kept"] == 0
    assert crafted["images back"] > exact["images back"]
    assert crafted["examples"] == exact["examples"] > 100  # of all three clients


def test_two_rounds_give_away_an_example_if_the_network_hardly_moves(tmp_path):
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


def test_runs_that_differ_in_their_seed_are_one_row_in_the_order_of_epsilon(
    quiet, loud, tmp_path, monkeypatch
):
    path, next = quiet
    c = next.run.config.copy_and_resolve_references()
    c.seed = 1
    runs.run(c, tmp_path / "other")
    workdirs = [str(folder) for folder in (path, tmp_path / "other", loud)]
    asked = leakage.AttackRequest(workdirs, clients=[0])
    ledger = privacy_ledger.privacy_ledger

    def less_of_seed_1(config, exp):
        spent = ledger(config, exp)(next.run.round)["privacy"]["epsilon"]
        return lambda rounds: {"privacy": {"epsilon": spent / (1 + config.seed)}}

    monkeypatch.setattr(privacy_ledger, "privacy_ledger", less_of_seed_1)
    alone, both = leakage.run_attack("membership", asked).rows
    assert alone["members"] == both["members"]  # an example of both runs counts once
    assert both["unit"] == "example" and alone["epsilon"] < 100 < both["epsilon"]
    largest = ledger(next.run.config, next.run.exp)(next.run.round)
    assert both["epsilon"] == largest["privacy"]["epsilon"]


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
    with refused("the only one with the architecture"):
        attack_cases.attacker_network(alone, "other")


def test_the_ratio_removes_how_hard_an_example_is():
    rng, size = np.random.default_rng(0), 400
    hardness = rng.normal(size=size) * 10  # hides the effect of 2 from a threshold
    member = np.arange(size) < size // 2
    inside = shadow_federations.halves(size, 64, rng)
    assert (inside.sum(0) == 32).all()  # each example is in half of the federations
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


@pytest.mark.parametrize("method", ["fedavg", "fedproto"])
def test_federations_train_on_their_half_and_find_members(method, tmp_path):
    """Clients train on half of their examples, many times."""
    run(method, tmp_path, data__train_share=0.5, local__epochs=10)
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
