"""LG-FedAvg, FedPer, FedDistill, FedGH; costs and configurations of FML and FedKD."""

import dataclasses
import re
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.averaging import drawn
from support.every import every
from support.exchange import KEY, X, Y, client, on_batch, output

from jaxproto import config, losses, models, transforms
from jaxproto.errors import UserError
from jaxproto.experiment import build, method_builder
from jaxproto.experiment.check import check_experiment
from jaxproto.methods import feddistill as fd
from jaxproto.methods.fedgh import fedgh
from jaxproto.methods.fedkd import eigenvectors, fedkd
from jaxproto.methods.fedper import FedPerUpload, fedper
from jaxproto.methods.fml import fml
from jaxproto.methods.lg_fedavg import lg_fedavg
from jaxproto.methods.local import local
from jaxproto.methods.nominal import FEDKD_RATIO
from jaxproto.reporting.analysis import cost
from jaxproto.storage import checkpoint
from jaxproto.summary import nominal_cost
from jaxproto.types import Protos, Spec

pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn

GOLDEN = np.load(Path(__file__).parents[1] / "fixtures" / "kernels.npz")
RNG = np.random.default_rng(3)
FEDPER = fedper(toys.SPEC)


SHARED = {"lg_fedavg": (lg_fedavg(toys.SPEC), "head"), "fedper": (FEDPER, "body")}


@every(SHARED)
def test_of_one_client_it_is_local_training_from_its_own_state(name):
    """With the part that the server drew."""
    method, part = SHARED[name]

    def init_client(net, key):
        params, *rest = method.init_client(net, key)
        return method.receive(params, method.init_server(net, toys.KEY)), *rest

    begun = dataclasses.replace(local(toys.SPEC), init_client=init_client)
    one, other = (toys.run(m, sampler=toys.only(4)) for m in (method, begun))
    assert toys.gap(one.params[4], other.params[4]) < 1e-6
    assert toys.gap(one.server, one.params[4]["net"][part]) < 1e-6


def test_lg_fedavg_shares_the_head_the_mean_weighted_by_examples():
    method, net = lg_fedavg(toys.SPEC), toys.net(8)
    server = method.init_server(net, KEY)
    heads, size_K = (
        drawn(server, lead=(3,)),
        np.asarray([5, 0, 15]),
    )  # the second is not there

    def after(size_K):
        one = client({"net": {"head": heads}}, (), ())
        data = SimpleNamespace(shard=SimpleNamespace(size=size_K))
        up, _ = method.upload(None, one, one, data, None, ())
        return method.update(net, server, up, KEY)

    want = jax.tree.map(lambda a: (5 * a[0] + 15 * a[2]) / 20, heads)
    assert toys.gap(after(size_K), want) < 1e-6
    assert toys.gap(after(0 * size_K), server) == 0
    params, norm, _ = method.init_client(net, KEY)
    head = drawn(params["net"]["head"], 1, ())
    got = method.receive(params, head)["net"]
    assert toys.gap(got, {**params["net"], "head": head}) == 0
    scores = method.predict(net, client(params, norm, ()), jnp.asarray(X), head)
    feat = net.apply(params["net"], norm["net"], X, False).feat
    assert toys.gap(scores["received"], feat @ head["kernel"] + head["bias"]) < 1e-5
    assert toys.gap(scores["head"], scores["received"]) > 0.1


def test_the_body_of_fedper_is_the_mean_weighted_by_examples_or_stays():
    """Heads never leave and stay apart."""
    r, size_K = toys.run(FEDPER, rounds=2), 5 + 2 * np.arange(6)
    bodies = [r.params[i]["net"]["body"] for i in range(6)]
    want = jax.tree.map(lambda *a: np.average(a, axis=0, weights=size_K), *bodies)
    assert toys.gap(want, r.server) < 1e-6
    plain = jax.tree.map(lambda *a: np.mean(a, axis=0), *bodies)
    assert toys.gap(plain, r.server) > 1e-4
    nothing = jax.tree.map(lambda a: np.zeros((3, *a.shape), np.float32), r.server)
    up = FedPerUpload(nothing, jnp.zeros(3, jnp.int32))
    assert toys.gap(FEDPER.update(None, r.server, up, None), r.server) == 0
    assert r.report.up._fields == ("body", "size")
    heads = [r.params[i]["net"]["head"] for i in range(6)]
    assert all(toys.gap(heads[i], heads[i + 1]) > 1e-2 for i in range(5))
    mine = FEDPER.receive(r.params[0], r.server)["net"]
    assert toys.gap(mine, {"body": r.server, "head": heads[0]}) == 0


def test_distances_are_their_formulas_and_the_default_is_pytorchs():
    """Golden `loss_b8_k10_d32`: targets softmax(prototypes[:, :K][labels])."""
    given = "logits", "prototypes", "labels", "feddistill_softmax_ce"
    logits, z, y, want = (jnp.asarray(GOLDEN[f"loss_b8_k10_d32.{k}"]) for k in given)
    got = fd.softmax_ce(logits, z[:, :10][y], jnp.ones(8))
    np.testing.assert_allclose(got, want, atol=1e-6)
    logits, z = np.float32(RNG.normal(size=(2, 3, 4)))
    log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    soft = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    wanted = {
        fd.softmax_ce: -(soft * log_p)[:2].sum() / 2,
        fd.raw_ce: -(z * log_p)[:2].sum() / 2,
        fd.mse: ((logits - z) ** 2)[:2].sum() / (2 * 4),
    }
    for distance, want in wanted.items():  # the third example does not count
        got = distance(logits, z, np.float32([1, 1, 0]))
        np.testing.assert_allclose(got, want, rtol=1e-5)


@every([fd.softmax_ce, fd.mse, fd.raw_ce])
def test_the_loss_is_cross_entropy_until_there_are_logits(distance):
    z = Protos(jnp.asarray(RNG.normal(size=(5, 5))), jnp.float32([1, 1, 0, 0, 1]))
    method = fd.feddistill(toys.SPEC, lam=0.7, distance=distance)
    none = z.replace(count=jnp.zeros(5))
    first, later = (on_batch(method, fd.FedDistillState(p)) for p in (none, z))
    plain = on_batch(local(toys.SPEC))
    assert toys.gap(first[:2], plain[:2]) < 1e-6
    logits = output().logits
    target = np.where(np.asarray(z.count)[Y][:, None] > 0, z.mean[Y], logits)
    want = plain[0] + 0.7 * distance(logits, target, jnp.ones(6))
    np.testing.assert_allclose(later[0], want, rtol=1e-5)
    assert toys.gap(later[1], first[1]) > 1e-3


def test_logits_are_collected_per_class_while_training_and_averaged_over_holders():
    method, net = fd.feddistill(toys.SPEC), toys.net(8)
    server = method.init_server(net, KEY)
    sums = on_batch(method, server)[2]
    up, _ = method.upload(net, None, client((), (), ()), None, None, sums)
    logits = output().logits
    want = [logits[c == Y].mean(0) for c in range(5)]
    np.testing.assert_allclose(up.mean, want, atol=1e-5)
    assert up.count.tolist() == [1] * 5 and not up.disclosed
    mean = jnp.stack([up.mean, 3 * up.mean, 9 * up.mean])
    both = Protos(mean, jnp.float32([[1] * 5, [1, 1, 0, 0, 0], [0, 1, 0, 0, 0]]))
    got = method.update(net, server, both, KEY).logits
    factor = np.float32([2, 13 / 3, 1, 1, 1])
    np.testing.assert_allclose(got.mean, up.mean * factor[:, None], rtol=1e-5)


def test_fedgh_trains_the_header_on_prototypes():
    """One batch of all (c_ij, j) that are there is one step of SGD on their mean."""
    method, net = toys.method(fedgh, server_rate=0.1, server_batch=100), toys.net(8)
    server, here = method.init_server(net, KEY), RNG.random((3, 5)) < 0.5
    header, sent = method.broadcast(server), method.broadcast
    proto = np.float32(RNG.normal(size=(3, 5, 8))) * here[..., None]
    label = np.argwhere(here)[:, 1]

    def loss(header):
        logits = net.head(header, proto[here])
        return losses.cross_entropy(logits, label, jnp.ones(len(label)))

    grads = jax.grad(loss)(header)
    want = jax.tree.map(lambda a, g: a - 0.1 * g, header, grads)
    up = Protos(jnp.asarray(proto), jnp.float32(here))
    after = method.update(net, server, up, KEY)
    assert toys.gap(sent(after), want) < 1e-6
    told = transforms.diagnostics_of(after)["server_loss"]
    assert told == pytest.approx(float(loss(header)), rel=1e-5)
    nobody = up.replace(count=0 * up.count)
    assert toys.gap(sent(method.update(net, server, nobody, KEY)), header) == 0
    options = {"server_rate": 0.5, "server_epochs": 100, "server_batch": 4}
    fitted = toys.method(fedgh, **options).update(net, server, up, KEY)
    assert loss(sent(fitted)) < 0.2 * loss(header)


def test_a_checkpoint_of_fedgh_from_before_its_loss_was_recorded_is_read(tmp_path):
    method, net = toys.method(fedgh), toys.net(8)
    server = method.init_server(net, KEY)
    checkpoint.save(tmp_path, 3, {"server": method.broadcast(server)})
    read = checkpoint.restore_latest(tmp_path, {"server": server}).state["server"]
    assert toys.gap(method.broadcast(read), method.broadcast(server)) == 0
    assert np.isnan(transforms.diagnostics_of(read)["server_loss"])


PRINTED = {  # millions for FML and FedKD, and the network that gives them
    "CIFAR-10": ("34.32", "30.66", 853_000 + 500 * 10),
    "GTSRB-43": ("35.03", "31.29", 854_196 + 501 * 43),
    "CIFAR-100": ("36.12", "32.26", 853_000 + 500 * 100),
    "Flowers-102": ("36.21", "32.34", 854_196 + 501 * 102),
    "Tiny ImageNet": ("38.12", "34.05", 853_000 + 500 * 200),
}


def test_on_a_cpu_eigenvectors_are_those_of_one_matrix_at_a_time():
    """XLA's kernel for several matrices can wait for its own threads for ever."""
    a_KGNN = jax.random.normal(KEY, (3, 2, 5, 5))
    a_KGNN = a_KGNN + a_KGNN.swapaxes(-1, -2)
    f = jax.jit(jax.vmap(eigenvectors))
    calls = re.findall(r"@lapack_ssyevd.*", f.lower(a_KGNN).as_text())
    assert calls and all("(tensor<5x5xf32>)" in call for call in calls)
    assert (f(a_KGNN) == jnp.linalg.eigh(a_KGNN)[1]).all()
    text = f.trace(a_KGNN).lower(lowering_platforms=("cuda",)).as_text()
    assert "while" not in text


@every(PRINTED.items())
def test_the_printed_costs_of_fml_and_fedkd(name, row):
    """T Table 1, 20 clients, d = 500. Two columns count the 4-layer CNN of hidden width
    d exactly, the three shared with S a body rounded to 0.853M and no bias of the head.
    """
    *printed, size = row
    for method, want in zip((fml, fedkd), printed, strict=True):
        found = method(Spec(0, 500), aux=toys.net(8)).nominal([1] * 20, {"aux": size})
        assert f"{found / 1e6:.2f}" == want, name


@pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections
def test_a_configuration_brings_networks_targets_and_costs():
    """The default auxiliary network is that of the exact columns."""
    c = config.load("configs/fedkd.py:spiral,code")
    exp = build.experiment(c, "cpu")
    check_experiment(exp)
    found, net = cost.cost_of(exp), exp.cohorts[0].net
    sizes = nominal_cost.parameters(exp.method, net)
    assert sizes == {"net": 242, "body": 230, "head": 12, "aux": 242, "project": 4}
    assert found.nominal == round(FEDKD_RATIO * 2 * 10 * 242)
    assert 0 < found.scalars_up <= 10 * 242 and c.method.target == "attached"
    for wrong, words in (("cnn4_d", "cnn4.* image"), ("cnn5", "method.aux.*cnn4")):
        c.method.aux = wrong
        with pytest.raises(UserError, match=words):
            build.experiment(c, "cpu")
    c = config.experiment("fml", "cifar10")
    shapes = {"num_classes": 43, "feat_dim": 500, "input_shape": (32, 32, 3)}
    network = partial(models.build, **shapes)
    method = method_builder.build_method(c.method, Spec(43, 500), network=network)
    found = nominal_cost.parameters(method, network("mlp"))
    assert found["aux"] == PRINTED["GTSRB-43"][-1]
