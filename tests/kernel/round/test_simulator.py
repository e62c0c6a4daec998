"""A federation as a library: scan, seeds, order of clients, what it refuses."""

import subprocess
import sys
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support import toys
from support.fast_jit import jit_to_the_bit as compiled

from jaxproto import metrics
from jaxproto.core.jax_settings import make_key
from jaxproto.errors import UserError
from jaxproto.methods.fedavg import fedavg
from jaxproto.methods.fedproto import fedproto
from jaxproto.round import participation
from jaxproto.round.simulator import Federation

SMALL, WIDE = toys.net(8), toys.net(16)
ROUNDS = 3


def arrays():
    """Training and test arrays of six clients, of 5 to 15 examples each."""
    examples, rows = toys.pool_and_rows()
    x, y = np.asarray(examples.x), np.asarray(examples.y)
    pairs = [(x[r], y[r]) for r in rows]
    return pairs, [(x[::2], y[::2]) for x, y in pairs]


TRAIN, TEST = arrays()


def federation(method=None, networks=None, train=TRAIN, test=TEST, **options):
    method = method or fedproto(toys.SPEC)
    if networks is None:
        networks = [SMALL, WIDE, SMALL, WIDE, WIDE, SMALL]
    options = {"batch_size": 4, "epochs": 2, **options}
    return Federation(method, networks, train, test, optax.sgd(0.05), **options)


def whole(fed, key):
    """Rounds in one scan, and the evaluation after them."""
    step = partial(fed.round, key)
    model, reports = jax.lax.scan(step, fed.init(key), jnp.arange(ROUNDS))
    return model, reports, fed.evaluate(model)


@pytest.fixture(scope="module")
def scanned():
    return compiled(whole)(federation(), 0)  # a federation as an argument


def test_a_scan_over_rounds_has_the_numbers_of_a_loop(scanned):
    fed = federation()
    one_round, model = (
        compiled(fed.round),
        compiled(fed.init)(0),
    )
    for r in range(ROUNDS):
        model, report = one_round(0, model, r)
    assert toys.gap(model, scanned[0]) < 1e-5
    assert toys.gap(report.loss, scanned[1].loss[-1]) < 1e-5
    accuracy = compiled(fed.evaluate)(model)
    assert toys.gap(accuracy, scanned[2]) < 1e-6


def test_a_map_over_seeds_has_the_numbers_of_each_and_a_key_those_of_its_seed(scanned):
    fed = federation()
    many = compiled(jax.vmap(partial(whole, fed)))(jnp.arange(2))
    key = compiled(partial(whole, fed))(make_key(1))
    for seed, alone in ((0, scanned), (1, key)):
        each = jax.tree.map(lambda a, seed=seed: a[seed], many)
        assert toys.gap(each[0], alone[0]) < 1e-5
        assert toys.gap(each[2], alone[2]) < 1e-6
    assert toys.gap(scanned[0].server, key[0].server) > 1e-3


def test_results_are_in_the_order_of_the_clients_whatever_the_cohorts(scanned):
    model, reports, accuracy = scanned
    sizes = np.array([len(y) for _, y in TRAIN])
    np.testing.assert_array_equal(reports.id, [range(6)] * ROUNDS)
    np.testing.assert_array_equal(reports.steps[0], 2 * np.maximum(sizes // 4, 1))
    fed, right = federation(), {}
    cohorts = fed.setup.cohorts
    assert [cohort.ids for cohort in cohorts] == [(5, 2, 0), (4, 3, 1)]
    for cohort, clients in zip(cohorts, model.clients, strict=True):
        for k, i in enumerate(cohort.ids):
            one = jax.tree.map(lambda a, k=k: a[k], clients)
            x, y = TEST[i]
            out = cohort.net.apply(one.params["net"], one.norm["net"], x, False)
            right[i] = np.asarray(out.logits.argmax(-1) == y)
            np.testing.assert_array_equal(one.count, np.bincount(TRAIN[i][1], None, 5))
            assert accuracy["head"][i] == pytest.approx(right[i].mean())
    pooled = fed.evaluate(model, pooled=True)["head"]
    assert pooled == pytest.approx(np.concatenate([*right.values()]).mean())


@pytest.mark.long
def test_all_clients_at_once_have_the_numbers_of_one_after_the_other(scanned):
    model, reports, accuracy = compiled(whole)(federation(clients_at_once="all"), 0)
    assert toys.gap(model.server, scanned[0].server) < 1e-4
    assert toys.gap(reports.loss, scanned[1].loss) < 1e-4
    np.testing.assert_array_equal(reports.steps, scanned[1].steps)
    assert accuracy.keys() == scanned[2].keys()


def test_networks_by_name_one_for_all_and_one_for_each_form_cohorts():
    def ids(networks):
        return {c.name: c.ids for c in federation(networks=networks).setup.cohorts}

    assert ids({"a": SMALL, "b": WIDE}) == {"a": (4, 2, 0), "b": (5, 3, 1)}
    assert ids(SMALL) == {"net": (5, 4, 3, 2, 1, 0)}
    assert ids([WIDE] * 5 + [SMALL]) == {
        "network_0": (4, 3, 2, 1, 0),
        "network_1": (5,),
    }


def test_a_client_that_does_not_take_part_has_zeros_in_the_report():
    fed = federation(sampler=participation.uniform(0.5), dropout=0.5)
    assert [cohort.num_rows for cohort in fed.setup.cohorts] == [3, 3]
    start = compiled(fed.init)(0)
    model, report = compiled(fed.round)(0, start, 0)
    trained = np.asarray(report.steps) > 0
    assert trained.sum() == 3 and not np.asarray(report.loss)[~trained].any()
    assert report.usable.all() and 0 < (np.asarray(report.bytes) > 0).sum() <= 3
    for cohort, before, after in zip(
        fed.setup.cohorts, start.clients, model.clients, strict=True
    ):
        for k, i in enumerate(cohort.ids):
            rows = jax.tree.map(lambda a, k=k: a[k], (before.params, after.params))
            assert (toys.gap(*rows) > 0) == trained[i]


def test_metrics_besides_accuracy_are_sums_by_client(scanned):
    fed = federation(metrics=metrics.metrics_by_name("macro_f1"))
    sums = jax.jit(fed.sums)(scanned[0])["head"]
    assert [*sums] == ["accuracy", "macro_f1"]
    by_name = {m.name: m for m in fed.metrics}
    values = metrics.by_client(by_name["accuracy"], sums["accuracy"])["accuracy"]
    np.testing.assert_allclose(values, scanned[2]["head"], rtol=1e-6)
    f1 = metrics.by_client(by_name["macro_f1"], sums["macro_f1"])["macro_f1"]
    assert f1.shape == (6,) and np.all((f1 >= 0) & (f1 <= 1))


def test_public_examples_are_rows_behind_those_of_the_clients():
    public = (np.ones((3, toys.INPUT)), np.arange(3))
    examples = federation(public=public).setup.examples
    np.testing.assert_array_equal(examples.x[examples.public], public[0])
    np.testing.assert_array_equal(examples.y[examples.public], public[1])


def with_pair(x, y):
    return [*TRAIN[:5], (x, y)]


X, Y = np.zeros((2, toys.INPUT)), np.zeros(2, int)
REFUSED = {
    "there are 2 networks, but train has 6 clients": {"networks": [SMALL, WIDE]},
    "there are 0 networks": {"networks": {}},
    "unknown option of local training 'epoch'": {"epoch": 2},
    "not a Net; call a factory": {"networks": toys.net},
    "has feature dimension 4, but the federation has 8": {
        "networks": {"a": SMALL, "b": toys.net(8, toys.SPEC._replace(feat_dim=4))}
    },
    "so all clients need one architecture, but there are 2": {
        "method": fedavg(toys.SPEC),
    },
    "build the method with it": {"method": fedproto(toys.SPEC._replace(feat_dim=4))},
    "train has 5 clients, and test 6": {"train": TRAIN[:5], "networks": SMALL},
    "train of client 5 has no examples": {"train": with_pair(X[:0], Y[:0])},
    "test of client 5 has no examples": {"test": with_pair(X[:0], Y[:0])},
    "train of client 5 has classes from 0 to 5, but": {
        "train": with_pair(X, np.array([0, 5]))
    },
    "test of client 5 has classes from -1 to 0, but": {
        "test": with_pair(X, np.array([0, -1]))
    },
    "classes float64": {"train": with_pair(X, Y / 1)},
    "inputs [2, 6] and classes [1]": {"train": with_pair(X, Y[:1])},
    "one type and shape, but there are float32[6], float32[5]": {
        "train": with_pair(X[:, :5], Y)
    },
    "inputs that are not finite": {"train": with_pair(X + np.inf, Y)},
    "fails for inputs of shape (5,)": {
        "train": [(x[:, :5], y) for x, y in TRAIN],
        "test": [(x[:, :5], y) for x, y in TEST],
    },
    "clients_at_once is 'few'": {"clients_at_once": "few"},
}


@pytest.mark.parametrize("text", REFUSED)
def test_networks_and_arrays_that_do_not_fit_are_refused_in_one_line(text):
    with pytest.raises(UserError) as e:
        federation(**REFUSED[text])
    assert text in str(e.value) and "\n" not in str(e.value)


FILES = 52  # of the package
CLASSIC = """
import sys
import jaxproto
from jaxproto.methods.fedproto import fedproto
from jaxproto.models.mlp import mlp
jaxproto.Federation
print(*[name for name in sys.modules if name.partition(".")[0] == "jaxproto"])
"""


def test_the_library_loads_few_files_and_nothing_of_the_run_layer():
    loaded = subprocess.check_output([sys.executable, "-c", CLASSIC], text=True).split()
    layers = {name.split(".")[1] for name in loaded if "." in name}
    assert not layers & {"config", "training", "experiment", "data", "storage"}
    assert len(loaded) <= FILES, sorted(loaded)
