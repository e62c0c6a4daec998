"""Clients of a saved run: their parameters, predictions, weights, and new ones."""

import sys

import jax
import numpy as np
import pytest
from support import attacked, runs

import jaxproto
from jaxproto import models
from jaxproto.errors import UserError
from jaxproto.lab.saved_runs import restore
from jaxproto.lab.saved_runs.saved_client import best_class
from jaxproto.methods import METHODS
from jaxproto.models import mlp


@pytest.fixture(scope="module")
def run(trained_runs):
    """Two architectures, and clients that sit rounds out."""
    return jaxproto.load(trained_runs("protonorm"))


def assert_same(a, b):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


def test_clients_are_called_by_their_ids_and_have_what_the_checkpoint_has(run):
    table, now = runs.records(run.path)[-1]["by_client"], run._now.opened
    assert len(run.clients) == 4 and [c.id for c in run.clients] == [0, 1, 2, 3]
    for i, client in enumerate(run.clients):
        assert client.architecture == ("mlp", "cnn4_d")[i % 2]
        assert len(client.data.test.y) == table["test_examples"][i]
        for rule, accuracy in client.accuracies().items():
            right = accuracy * table["test_examples"][i]
            assert round(right) == table[f"correct_{rule}"][i]
        at = next(n for n, c in enumerate(now.exp.cohorts) if i in c.ids)
        k, stacked = now.exp.cohorts[at].ids.index(i), now.state.clients[at]
        saved = stacked.params, stacked.memory.mean
        own = client.params, client.prototypes.mean
        assert_same(jax.tree.map(lambda a, k=k: a[k], saved), own)
    for wrong in (4, -1, "3", True):
        with pytest.raises(UserError, match="client"):
            run.clients[wrong]
    held = run.server.protos  # what clients receive
    np.testing.assert_array_equal(run.prototypes.mean, held.mean)
    np.testing.assert_array_equal(run.prototypes.count > 0, held.count > 0)


def test_predictions_take_examples_as_the_data_set_stores_them(run):
    client = run.clients[1]
    x, y = client.data.test
    assert x.dtype == np.uint8 and x.shape[1:] == (8, 8, 1)
    said = client.predict(x)
    np.testing.assert_array_equal(said, client.predict(x[..., 0]))
    np.testing.assert_array_equal(said[:1], client.predict(x[:1]))
    np.testing.assert_array_equal(said, client.predict(x.astype(float)))
    assert np.mean(said == y) == client.accuracies()["head"]
    assert client.scores(x, "local").shape == (len(x), 10)
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


def test_torch_weights_come_back_the_same_or_are_refused(run, tmp_path, monkeypatch):
    shapes = {"input_shape": (8, 8, 1), "num_classes": 10}
    shapes["feat_dim"] = run.config.model.feat_dim
    for i, suffix in ((0, ".safetensors"), (1, ".npz")):
        file, client = tmp_path / f"x{suffix}", run.clients[i]
        run.to_torch(i, file)
        made = models.from_torch(client.architecture, file, **shapes)
        assert_same(made, (client.params["net"], client.norm["net"]))
    there = sorted(tmp_path.iterdir())
    with pytest.raises(UserError, match=r"its name must end in \.safetensors"):
        run.to_torch(0, tmp_path / "y.bin")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UserError, match="torch is not installed"):
        run.to_torch(0, tmp_path / "y.pt")

    def own(*args, **kwargs):
        return mlp.mlp(*args, **kwargs)

    monkeypatch.setattr(sys.modules[models.from_torch.__module__], "NETS", {"mlp": own})
    with pytest.raises(UserError, match="network 'mlp' is none of this library"):
        run.to_torch(0, tmp_path / "y.npz")
    assert sorted(tmp_path.iterdir()) == there


@pytest.mark.long
def test_a_new_client_trains_as_every_client_does(tmp_path):
    """Local training, the largest client (whose table has no padding): to the bit."""
    more = {"rounds": 1, "local__epochs": 5, "optimizer__learning_rate": 0.1}
    c = attacked.small("local", attacked.data(tmp_path / "toy.npz"), **more)
    attacked.run(c, tmp_path / "run")
    run = jaxproto.load(tmp_path / "run")
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


@pytest.mark.long
def test_a_new_client_has_no_device_that_limits_its_steps(tmp_path):
    slow = runs.devices(tmp_path / "d.csv", "0,1e-9,1", "1,1e-9,1")
    more = {"rounds": 1, "time__devices": slow, "time__training": 1.0}
    c = attacked.small("local", attacked.data(tmp_path / "toy.npz"), **more)
    attacked.run(c, tmp_path / "run")
    run = jaxproto.load(tmp_path / "run")
    data, steps = run.clients[1].data, [client.state.steps for client in run.clients]
    assert steps == [1, 1]
    made = run.new_client(*data.train, *data.test)
    assert made.state.steps == len(data.train.y) // c.local.batch_size > 1
    assert run.new_client(*data.train, *data.test, id=1).state.steps == 1


def test_a_new_client_gets_what_is_broadcast_and_trains_or_is_refused(run):
    (x, y), test = run.clients[0].data
    made = run.new_client(x, y, *test, architecture="cnn4_d", epochs=5)
    assert made.architecture == "cnn4_d" and made.id == 4
    rows = made.joined.set_index("rule").to_dict("index")
    assert rows.keys() == set(made.rules)
    assert np.isnan(rows["global"]["before"]) and rows["local"]["before"] == 0
    assert rows["head"]["after_training"] > rows["head"]["before"]
    assert rows["local"]["after_training"] == made.accuracies()["local"]
    assert made.confusion().sum() == len(test.y)
    assert made.prototypes.count.tolist() == np.bincount(y, minlength=10).tolist()
    again = run.new_client(x, y, *test, architecture="cnn4_d", epochs=5)
    assert again.joined.equals(made.joined)
    for wrong, more, message in [
        ((x, y + 9), {}, "is no class of digits: its classes are 0 to 9."),
        ((x, y[1:]), {}, f"{len(x)} examples and {len(y) - 1} labels"),
        ((x[:, :3], y), {}, "inputs have shape"),
        ((x, y), {"architecture": "mpl"}, "unknown network 'mpl'"),
        ((x, y), {"epochs": -1}, "epochs is -1"),
    ]:
        with pytest.raises(UserError, match=message):
            run.new_client(*wrong, *test, **more)


@pytest.mark.long
def test_clients_of_an_average_have_one_architecture(trained_runs):
    """And where they keep nothing, they have what is broadcast."""
    path = trained_runs("fedavg")
    run = jaxproto.load(path)
    assert run._now.opened.exp.store == "none"
    assert run.evaluate() == runs.records(path)[-1]["rules"]
    client = run.clients[4]
    assert_same(client.params, run.server)
    (x, y), test = client.data
    assert client.accuracies()["head"] == client.accuracies()["received"]
    with pytest.raises(UserError, match="averages networks"):
        run.new_client(x, y, *test, architecture="cnn4_d")
    head, received = run.new_client(x, y, *test).joined
    assert np.isnan(received["before"])
    assert head["after_broadcast"] == received["after_broadcast"]
    assert head["after_training"] >= head["after_broadcast"]


@pytest.mark.long
def test_clients_in_files_of_which_a_sample_is_evaluated(tmp_path):
    """Also those that never took part; pictures have all."""
    few = {"data__clients": 6, "participation__law": "uniform"}
    few |= {"participation__fraction": 0.4, "clients__store": "disk"}
    runs.run(runs.digits(eval__clients="3", **few), tmp_path)
    before = runs.snapshot(tmp_path)
    run = jaxproto.load(tmp_path)
    assert run.evaluate() == runs.records(tmp_path)[-1]["rules"]
    assert sum(c.state.steps > 0 for c in run.clients) == 2
    every = run.evaluate("head", range(6))["head"]
    each = [c.accuracies()["head"] for c in run.clients]
    assert every["client_mean"] == pytest.approx(np.mean(each))
    whole = restore.load(tmp_path)
    (clients,) = whole.state.clients
    for k, i in enumerate(whole.exp.cohorts[0].ids):
        assert_same(jax.tree.map(lambda a, k=k: a[k], clients), run.clients[i].state)
    assert runs.snapshot(tmp_path) == before


@pytest.mark.long
def test_texts_are_predicted_from_words(tmp_path):
    rng, names = np.random.default_rng(0), ("blue", "red")
    words = [" ".join(rng.choice([f"{n}{i}" for i in range(4)], 5)) for n in names * 30]
    rows = [f"{text},{n}" for text, n in zip(words, names * 30, strict=True)]
    (tmp_path / "toy.csv").write_text("\n".join(rows) + "\n")
    fields = {"data__name": f"csv:{tmp_path / 'toy.csv'}", "data__partition": "iid"}
    fields |= {"data__clients": 2, "data__max_len": 6, "model__group": "fasttext"}
    fields |= {"model__feat_dim": 6, "optimizer__learning_rate": 0.5, "eval_every": 10}
    fields |= {"local__batch_size": 4, "rounds": 10}
    runs.run(runs.digits(**fields), tmp_path / "run")
    run = jaxproto.load(tmp_path / "run")
    assert run.evaluate() == runs.records(tmp_path / "run")[-1]["rules"]
    said = run.clients[1].predict(["blue1 blue2", "red0 red3 unheard"])
    assert said.tolist() == [0, 1]
    with pytest.raises(UserError, match=r"inputs have shape \[\], but"):
        run.clients[1].predict("blue1 blue2")
    x, y = run.clients[0].data.train
    assert x.dtype == np.int32
    made = run.new_client(words[:8], list(names * 4), x, y)
    assert made.data.train.y.tolist() == [0, 1] * 4
    run.to_torch(1, tmp_path / "x.safetensors")


@pytest.fixture
def unoptimised():
    """Programs are compiled in less time."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.mark.long
@pytest.mark.usefixtures("unoptimised")
@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_looked_into_and_joined(tmp_path, method):
    c = runs.digits(method)
    own = {"aux": "mlp", "anchors": "none"}
    c.method.update({k: v for k, v in own.items() if k in c.method})
    runs.run(c, tmp_path)
    run = jaxproto.load(tmp_path)
    rules = runs.records(tmp_path)[-1]["rules"]
    assert run.evaluate() == rules
    client = run.clients[2]
    assert client.accuracies().keys() >= rules.keys()
    made = run.new_client(*client.data.train, *client.data.test)
    assert set(made.joined["rule"]) == set(made.rules) == set(client.rules)
    assert np.isfinite(made.joined["after_training"]).all()
    x = client.data.test.x
    assert made.features(x).shape == client.features(x).shape
