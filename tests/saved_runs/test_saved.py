"""`jaxproto.load`: what comes out of a run's folder is what the run had."""

import json
import shutil
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from support import runs

import jaxproto
from jaxproto import config, models
from jaxproto.errors import UserError
from jaxproto.methods import METHODS
from jaxproto.saved_runs import metrics_table, restore
from jaxproto.saved_runs.saved_client import best_class
from jaxproto.storage import checkpoint, records, workdir
from jaxproto.storage.run_folder import RunFolder

OLD = Path(__file__).parents[1] / "fixtures" / "run_of_03d3868"
LAST = {"checkpoint_every": 1, "eval_every": 1}
FEW = {"participation__law": "uniform", "participation__fraction": 0.4, **LAST}


def few(method="fedproto", **changes):
    """Six clients of one perceptron on digits, of which some take part."""
    own = {"data__clients": 6, "model__group": "mlp", "rounds": 2, **FEW}
    return runs.small(method, "digits", **{**own, **changes})


def assert_same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def last_record(path):
    return records.read(path / "metrics.jsonl")[-1]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Two architectures, and clients that sit rounds out."""
    folder = tmp_path_factory.mktemp("runs") / "het"
    c = runs.tiny(model__group="mlp,cnn4_d", rounds=2, eval__per_client=True, **LAST)
    runs.run(c, folder)
    return folder


@pytest.fixture(scope="module")
def run(path):
    return jaxproto.load(path)


def test_opening_and_records_and_server_compile_nothing(path):
    events = []

    def hear(event, seconds, **_):
        events.append(event)

    jax.monitoring.register_event_duration_secs_listener(hear)
    run = jaxproto.load(path)
    assert len(run.metrics) and run.round == 2 and run.server and run.partition
    jax.monitoring.unregister_event_duration_listener(hear)
    assert "/jax/core/compile/backend_compile_duration" not in events


def test_a_run_says_what_it_is(path, run):
    assert (run.status, run.rounds, run.path) == ("finished", 2, path)
    assert run.config.method.name == "protonorm" and run.notes == ()
    assert "protonorm on digits, 4 clients, seed 0, 2 of 2 rounds" in repr(run)
    assert run.partition.train.sum() + run.partition.test.sum() == 1797
    assert run.summary == json.loads((path / "summary.json").read_text())


def test_metrics_have_a_row_for_each_round_and_rule(path, run):
    record = last_record(path)
    assert len(run.metrics) == 2 * len(record["rules"])
    (row,) = run.metrics.where(round=2, rule="local")
    assert {k: row[k] for k in record["rules"]["local"]} == record["rules"]["local"]
    assert row["loss"] == record["loss"] and row["bytes_up"] == record["bytes_up"]
    assert row["bytes_total_up"] == record["bytes_total"]["up"]
    assert run.metrics["round"].dtype == np.int64
    assert "client_mean" in repr(run.metrics)


def test_metrics_of_other_names_have_columns_of_their_own():
    rules = {"head": {"pooled": 0.5}, "local": {"pooled": None}}
    more = {"head": {"f1": {"pooled": 0.25, "each": [1, 2]}}}
    table = metrics_table.metrics_table([{"round": 1, "rules": rules, "metrics": more}])
    assert table.columns == ("round", "rule", "pooled", "f1_pooled")
    np.testing.assert_array_equal(table["f1_pooled"], [0.25, np.nan])
    assert np.isnan(table["pooled"][1])
    assert len(metrics_table.metrics_table([])["rule"]) == 0


def test_a_data_frame_needs_pandas_and_nothing_else_does(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(UserError, match="pandas is not installed"):
        run.metrics.to_pandas()
    with pytest.raises(UserError, match=r"unknown column 'rounds'\. Did you mean"):
        run.metrics["rounds"]


def test_an_evaluation_is_that_of_the_record_to_the_last_digit(path, run):
    rules = last_record(path)["rules"]
    assert run.evaluate() == rules
    assert run.evaluate("local", range(4)) == {"local": rules["local"]}
    one = run.evaluate(["head"], clients=[2])["head"]
    assert one["pooled"] == one["client_min"] == run.clients[2].accuracies()["head"]
    assert run.evaluate(part="train").keys() == rules.keys()


def test_clients_are_called_by_their_ids(path, run):
    table = np.load(path / "per_client" / "000002.npz")
    cohorts = {i: c for c in run._now.opened.exp.cohorts for i in c.ids}
    assert len(run.clients) == 4 and [c.id for c in run.clients] == [0, 1, 2, 3]
    for i, client in enumerate(run.clients):
        assert client.architecture == cohorts[i].name == ("mlp", "cnn4_d")[i % 2]
        assert len(client.data.test.y) == table["test_examples"][i]
        for rule, accuracy in client.accuracies().items():
            right = accuracy * table["test_examples"][i]
            assert round(right) == table[f"correct_{rule}"][i]
    for wrong in (4, -1, "3", True):
        with pytest.raises(UserError, match="client"):
            run.clients[wrong]


def test_parameters_are_those_of_the_checkpoint(run):
    state, client = run._now.opened.state, run.clients[3]
    cohort = next(c for c in run._now.opened.exp.cohorts if 3 in c.ids)
    stacked = state.clients[run._now.opened.exp.cohorts.index(cohort)]
    k, leaves = cohort.ids.index(3), jax.tree.leaves(client.params)
    assert all(type(a) is np.ndarray for a in leaves)
    for a, b in zip(leaves, jax.tree.leaves(stacked.params), strict=True):
        np.testing.assert_array_equal(a, b[k])
    np.testing.assert_array_equal(client.prototypes.mean, stacked.memory.mean[k])


def test_predictions_take_examples_as_the_data_set_stores_them(run):
    client = run.clients[1]
    x, y = client.data.test
    assert x.dtype == np.uint8 and x.shape[1:] == (8, 8, 1)
    said = client.predict(x)
    np.testing.assert_array_equal(said, client.predict(x[..., 0]))
    np.testing.assert_array_equal(said[:1], client.predict(x[:1]))
    assert np.mean(said == y) == client.accuracies()["head"]
    assert client.scores(x, "local").shape == (len(x), 10)
    assert client.features(x).shape == (len(x), run.config.model.feat_dim)
    confusion = client.confusion("head")
    assert confusion.sum() == len(x) and np.trace(confusion) == np.sum(said == y)
    np.testing.assert_array_equal(confusion.sum(1), run.partition.test[1])
    for wrong, message in [
        (x / 255, "inputs are float64, but those of digits are uint8"),
        (x[0], "Give one example as x"),
        (x[:, :4], "inputs have shape"),
        (x[:0], "there is no example"),
    ]:
        with pytest.raises(UserError, match=message):
            client.predict(wrong)
    with pytest.raises(UserError, match=r"unknown rule 'heed'\. Did you mean 'head'"):
        client.predict(x, "heed")


def test_a_rule_without_prototypes_offers_no_class():
    scores = np.array([[-np.inf, -np.inf], [0, 1], [np.nan, 0], [-np.inf, -3]])
    assert best_class(scores).tolist() == [-1, 1, -1, 1]


def test_prototypes_are_those_that_clients_receive(run):
    held = run.server.protos
    np.testing.assert_array_equal(run.prototypes.mean, held.mean)
    np.testing.assert_array_equal(run.prototypes.count > 0, held.count > 0)


@pytest.mark.parametrize("suffix", [".safetensors", ".npz"])
@pytest.mark.parametrize("i", [0, 1])
def test_weights_for_torch_come_back_to_the_same_bits(run, tmp_path, i, suffix):
    file, client = tmp_path / f"x{suffix}", run.clients[i]
    run.to_torch(i, file)
    shapes = {"input_shape": (8, 8, 1), "num_classes": 10}
    shapes["feat_dim"] = run.config.model.feat_dim
    made = models.from_torch(client.architecture, file, **shapes)
    assert_same(made, (client.params["net"], client.norm["net"]))


def test_weights_that_cannot_be_written_are_told(run, tmp_path, monkeypatch):
    with pytest.raises(UserError, match=r"its name must end in \.safetensors"):
        run.to_torch(0, tmp_path / "x.bin")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UserError, match="torch is not installed"):
        run.to_torch(0, tmp_path / "x.pt")

    def own(*args, **kwargs):
        return models.registry.mlp(*args, **kwargs)

    monkeypatch.setitem(models.NETS, "mlp", own)
    with pytest.raises(UserError, match="network 'mlp' is none of this library"):
        run.to_torch(0, tmp_path / "x.npz")
    assert not any(tmp_path.iterdir())


def test_a_new_client_trains_as_every_client_does(tmp_path):
    """Local training, the largest client (whose table has no padding): to the bit."""
    everyone = {"participation__law": "all", "participation__fraction": 1.0}
    runs.run(few("local", rounds=1, **everyone), tmp_path)
    run = jaxproto.load(tmp_path)
    i = int(run.partition.train.sum(1).argmax())
    data = run.clients[i].data
    made = run.new_client(*data.train, *data.test, id=i)
    assert made.id == i and made.data.train.x is data.train.x
    assert_same(made.params, run.clients[i].params)
    (row,) = made.joined
    assert row["after_training"] == made.accuracies()["head"]
    assert row["after_training"] == run.clients[i].accuracies()["head"]
    assert row["before"] == row["after_broadcast"] < row["after_training"]
    assert run.prototypes is None


def test_a_new_client_gets_what_is_broadcast_and_trains(run):
    (x, y), (x_test, y_test) = run.clients[0].data
    made = run.new_client(x, y, x_test, y_test, architecture="cnn4_d", epochs=5)
    assert made.architecture == "cnn4_d" and made.id == 4
    rows = {row["rule"]: row for row in made.joined}
    assert rows.keys() == set(made.rules)
    assert np.isnan(rows["global"]["before"]) and rows["local"]["before"] == 0
    assert rows["head"]["after_training"] > rows["head"]["before"]
    assert rows["local"]["after_training"] == made.accuracies()["local"]
    assert made.confusion().sum() == len(y_test)
    assert made.prototypes.count.tolist() == np.bincount(y, minlength=10).tolist()
    again = run.new_client(x, y, x_test, y_test, architecture="cnn4_d", epochs=5)
    for name in made.joined.columns:
        np.testing.assert_array_equal(again.joined[name], made.joined[name])


def test_a_new_client_that_does_not_fit_is_refused(run):
    (x, y), test = run.clients[0].data
    for wrong, message in [
        ((x, y + 9, *test), "is no class of digits: its classes are 0 to 9."),
        ((x, y[1:], *test), f"{len(x)} examples and {len(y) - 1} labels"),
        ((x[:, :3], y, *test), "inputs have shape"),
    ]:
        with pytest.raises(UserError, match=message):
            run.new_client(*wrong)
    with pytest.raises(UserError, match="unknown network 'mpl'"):
        run.new_client(x, y, *test, architecture="mpl")
    with pytest.raises(UserError, match="epochs is -1"):
        run.new_client(x, y, *test, epochs=-1)


@pytest.mark.long
def test_clients_of_an_average_have_one_architecture(tmp_path):
    """And where they keep nothing, they have what is broadcast."""
    runs.run(few("fedavg"), tmp_path)
    run = jaxproto.load(tmp_path)
    assert run._now.opened.exp.store == "none"
    assert run.evaluate() == last_record(tmp_path)["rules"]
    assert_same(run.clients[5].params, run.server)
    client = run.clients[5]
    (x, y), test = client.data
    assert client.accuracies()["head"] == client.accuracies()["received"]
    with pytest.raises(UserError, match="averages networks"):
        run.new_client(x, y, *test, architecture="cnn4_d")
    made = run.new_client(x, y, *test)
    head, received = made.joined
    assert np.isnan(received["before"])
    assert head["after_broadcast"] == received["after_broadcast"]
    assert head["after_training"] >= head["after_broadcast"]


@pytest.mark.long
def test_clients_in_files_of_which_a_sample_is_evaluated(tmp_path):
    """Also those that never took part; pictures have all."""
    runs.run(few(clients__store="disk", eval__clients="3", rounds=1), tmp_path)
    before = runs.snapshot(tmp_path)
    run = jaxproto.load(tmp_path)
    assert run.evaluate() == last_record(tmp_path)["rules"]
    assert sum(c.state.steps > 0 for c in run.clients) == 2
    every = run.evaluate("head", range(6))["head"]
    each = [c.accuracies()["head"] for c in run.clients]
    assert every["client_mean"] == pytest.approx(np.mean(each))
    whole = restore.load(tmp_path)
    (clients,) = whole.state.clients
    for k, i in enumerate(whole.exp.cohorts[0].ids):
        assert_same(jax.tree.map(lambda a, k=k: a[k], clients), run.clients[i].state)
    assert runs.snapshot(tmp_path) == before


def test_a_run_that_goes_on_is_read_and_left_alone(path, tmp_path):
    copy = Path(shutil.copytree(path, tmp_path / "run"))
    (copy / "summary.json").unlink()
    with workdir.lock_workdir(copy):
        before = runs.snapshot(copy)
        run = jaxproto.load(copy)
        assert run.status == "running" and run.rounds == run.round == 2
        assert run.evaluate() == last_record(copy)["rules"]
        assert runs.snapshot(copy) == before


def test_refreshing_finds_what_was_written_since(path, tmp_path):
    copy = Path(shutil.copytree(path, tmp_path / "run"))
    (copy / "summary.json").unlink()
    lines = (copy / "metrics.jsonl").read_text().splitlines(keepends=True)
    (copy / "metrics.jsonl").write_text(lines[0])
    (copy / "checkpoints" / "2").rename(tmp_path / "2")
    run = jaxproto.load(copy)
    first = run.clients[0]
    assert run.rounds == run.round == 1
    assert run.evaluate() == json.loads(lines[0])["rules"]
    (tmp_path / "2").rename(copy / "checkpoints" / "2")
    (copy / "metrics.jsonl").write_text("".join(lines))
    assert run.refresh() is run and run.rounds == run.round == 2
    assert run.evaluate() == json.loads(lines[1])["rules"]
    x = first.data.test.x
    assert np.abs(first.scores(x) - run.clients[0].scores(x)).max() > 0


def test_a_checkpoint_that_goes_while_it_is_read_is_read_anew(path, monkeypatch):
    run = RunFolder.read(path)
    config_ = restore.configuration(run)
    exp, real, seen = restore.experiment(run, config_), checkpoint.restore_latest, []

    def gone(*args):
        seen.append(1)
        if len(seen) == 1:
            monkeypatch.setattr(checkpoint, "rounds", lambda _: [2])
            raise FileNotFoundError
        return real(*args)

    monkeypatch.setattr(checkpoint, "rounds", lambda _: [1])
    monkeypatch.setattr(checkpoint, "restore_latest", gone)
    assert restore.read_latest(path, config_, exp).round == 2 and len(seen) == 2


def test_a_diverged_run_has_its_last_checkpoint(path, tmp_path):
    copy = Path(shutil.copytree(path, tmp_path / "run"))
    summary = json.loads((copy / "summary.json").read_text())
    summary |= {"status": "diverged", "reason": "loss nan"}
    (copy / "summary.json").write_text(json.dumps(summary))
    run = jaxproto.load(copy)
    assert run.status == "diverged" and run.summary["reason"] == "loss nan"
    assert np.isfinite(run.clients[3].scores(run.clients[3].data.test.x)).all()


def test_a_run_of_an_earlier_version_is_opened(tmp_path):
    run = jaxproto.load(shutil.copytree(OLD, tmp_path / "run"))
    assert run.status == "finished" and run.rounds == run.round == 2
    assert len(run.metrics) == 2 * 4 and run.prototypes.mean.shape == (6, 2)
    for rule, told in last_record(OLD)["rules"].items():
        found = run.evaluate(rule)[rule]
        assert found["pooled"] == pytest.approx(told["pooled"], abs=0.002)
    client = run.clients[3]
    assert client.features([[0.5, 1]]).shape == (1, 2)
    assert client.predict(client.data.train.x[:3]).shape == (3,)


@pytest.mark.long
def test_texts_are_predicted_from_words(tmp_path):
    rng, names = np.random.default_rng(0), ("blue", "red")
    words = [" ".join(rng.choice([f"{n}{i}" for i in range(4)], 5)) for n in names * 30]
    rows = [f"{text},{n}" for text, n in zip(words, names * 30, strict=True)]
    (tmp_path / "toy.csv").write_text("\n".join(rows) + "\n")
    c = config.experiment("fedproto", "digits")
    c.update_from_flattened_dict(
        {
            "data.name": f"csv:{tmp_path / 'toy.csv'}",
            **{"data.clients": 2, "data.partition": "iid", "data.max_len": 6},
            **{"model.group": "fasttext", "model.feat_dim": 6, "rounds": 10},
            **{"optimizer.learning_rate": 0.5, "local.batch_size": 4, "eval_every": 10},
        }
    )
    runs.run(c, tmp_path / "run")
    run = jaxproto.load(tmp_path / "run")
    assert run.evaluate() == last_record(tmp_path / "run")["rules"]
    said = run.clients[1].predict(["blue1 blue2", "red0 red3 unheard"])
    assert said.tolist() == [0, 1]
    x, y = run.clients[0].data.train
    assert x.dtype == np.int32
    made = run.new_client(words[:8], list(names * 4), x, y)
    assert made.data.train.y.tolist() == [0, 1] * 4
    run.to_torch(1, tmp_path / "x.safetensors")


@pytest.mark.long
def test_two_exchanges_and_public_examples(tmp_path):
    runs.run(few("refprotofl", data__public_share=0.02, **{"rounds": 2}), tmp_path)
    run = jaxproto.load(tmp_path)
    assert run.evaluate() == last_record(tmp_path)["rules"]
    client = run.clients[4]
    (x, y), test = client.data
    assert client.features(x[:2]).shape == (2, run.config.method.adapter_dim)
    made = run.new_client(x, y, *test)
    rows = {row["rule"]: row for row in made.joined}
    assert np.isnan(rows["received"]["before"])
    assert rows["head"]["after_broadcast"] == rows["received"]["after_broadcast"]


def test_damage_and_absence_are_told_in_one_line(path, tmp_path):
    def refused(match, use=lambda run: run, folder=None):
        with pytest.raises(UserError, match=match) as e:
            use(jaxproto.load(folder or copy))
        assert "\n" not in str(e.value)

    copy = tmp_path / "run"
    refused("does not exist", folder=tmp_path / "nothing")
    shutil.copytree(path, copy)
    (copy / "partition.csv").write_text("nonsense")
    refused("is no partition of a run", lambda run: run.partition)
    newest = copy / "checkpoints" / "2" / "manifest.json"
    newest.write_text(newest.read_text()[:-9])
    run = jaxproto.load(copy)
    assert run.round == 1 and len(run.notes) == 1 and "is damaged" in run.notes[0]
    shutil.rmtree(copy / "checkpoints")
    refused("holds no checkpoint", lambda run: run.server)
    lines = (copy / "metrics.jsonl").read_text().splitlines()
    (copy / "metrics.jsonl").write_text(lines[0] + "\n")
    refused("has ended after 2 rounds, but not all of it is there")
    (copy / "metrics.jsonl").write_text("[]\n" + lines[1])
    refused("line 1 of .* is no record of a run")
    (copy / "summary.json").write_text("{")
    refused("summary.json cannot be read")
    (copy / "config.json").write_text("{")
    refused("config.json cannot be read")


@pytest.mark.long
@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_looked_into_and_joined(tmp_path, method):
    c = runs.small(method, "digits", model__group="mlp", rounds=1)
    own = {"aux": "mlp", "anchors": "none"}
    c.method.update({k: v for k, v in own.items() if k in c.method})
    runs.run(c, tmp_path)
    run = jaxproto.load(tmp_path)
    rules = last_record(tmp_path)["rules"]
    assert run.evaluate() == rules
    client = run.clients[2]
    assert client.accuracies().keys() >= rules.keys()
    made = run.new_client(*client.data.train, *client.data.test)
    assert set(made.joined["rule"]) == set(made.rules) == set(client.rules)
    assert np.isfinite(made.joined["after_training"]).all()
    x = client.data.test.x
    assert made.features(x).shape == client.features(x).shape
