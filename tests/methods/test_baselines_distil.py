"""LG-FedAvg, FedDistill and FedGH; costs and configurations, FML and FedKD included."""

import dataclasses
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.exchange import KEY, X, Y, alone, client, on_batch

from jaxproto import config, federation, fit, losses, models
from jaxproto.config import build
from jaxproto.errors import UserError
from jaxproto.methods import feddistill as fd
from jaxproto.methods.fedgh import fedgh
from jaxproto.methods.fedkd import fedkd
from jaxproto.methods.fml import fml
from jaxproto.methods.lg_fedavg import lg_fedavg
from jaxproto.methods.local import local
from jaxproto.methods.nominal import FEDKD_RATIO
from jaxproto.participation import Participation
from jaxproto.report import cost, nominal
from jaxproto.types import Protos, Spec

GOLDEN = np.load(Path(__file__).parents[1] / "fixtures" / "kernels.npz")
RNG = np.random.default_rng(3)
DISTANCES = [fd.softmax_ce, fd.mse, fd.raw_ce]


def golden(name):
    return jnp.asarray(GOLDEN[f"loss_b8_k10_d32.{name}"])


def like(tree, *lead, seed=0):
    """Random numbers in the shape of a tree, with more axes in front."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda a: np.float32(rng.normal(size=(*lead, *a.shape))), tree)


def outputs():
    """The logits of the client of `on_batch`."""
    net = toys.net(8)
    return np.asarray(net.apply(*net.init(KEY), jnp.asarray(X), True).logits)


# LG-FedAvg


def test_lg_fedavg_of_one_client_is_local_training():
    """When the federation starts from that client's head, drawn as `toys.run` does."""

    def head(net, key):
        return net.init(jax.random.fold_in(jax.random.key(3), 0))[0]["head"]

    method = dataclasses.replace(lg_fedavg(toys.SPEC), init_server=head)
    one = toys.run(method, sampler=first_alone)
    assert toys.gap(one.params[0], alone()[0]) < 1e-6
    assert toys.gap(one.server, alone()[0]["net"]["head"]) < 1e-6


def first_alone(key, clients, r=0):
    return Participation(*[jnp.arange(clients) == 0] * 2)


def test_the_head_of_lg_fedavg_is_the_mean_weighted_by_examples():
    method, net = lg_fedavg(toys.SPEC), toys.net(8)
    server = method.init_server(net, KEY)
    heads, size_K = like(server, 3), np.asarray([5, 0, 15])  # the second is not there
    got = method.update(net, server, method_up(method, heads, size_K), KEY)
    want = jax.tree.map(lambda a: (5 * a[0] + 15 * a[2]) / 20, heads)
    assert toys.gap(got, want) < 1e-6
    nobody = method_up(method, heads, 0 * size_K)
    assert toys.gap(method.update(net, server, nobody, KEY), server) == 0


def method_up(method, heads, size_K):
    """Uploads of LG-FedAvg; what is not there is zero."""
    one = client({"net": {"head": heads}}, (), ())
    data = SimpleData(SimpleShard(size_K))
    return method.upload(None, one, one, data, None, ())[0]


@dataclasses.dataclass
class SimpleShard:
    """The only part of the data that an upload of LG-FedAvg looks at."""

    size: np.ndarray


@dataclasses.dataclass
class SimpleData:
    """Data with it."""

    shard: SimpleShard


def test_clients_keep_their_body_and_take_the_head_which_is_rule_received():
    method, net = lg_fedavg(toys.SPEC), toys.net(8)
    params, norm, _ = method.init_client(net, KEY)
    head = like(params["net"]["head"])
    got = method.receive(params, head)["net"]
    assert toys.gap(got, {**params["net"], "head": head}) == 0
    scores = method.predict(net, client(params, norm, ()), jnp.asarray(X), head)
    feat = net.apply(params["net"], norm["net"], X, False).feat
    assert toys.gap(scores["received"], feat @ head["kernel"] + head["bias"]) < 1e-5
    assert toys.gap(scores["head"], scores["received"]) > 0.1


def test_heads_of_different_shapes_are_refused_with_both_shapes():
    bare = toys.net(16)

    def without_bias(key):
        params, norm = bare.init(key)
        return {**params, "head": {"kernel": params["head"]["kernel"]}}, norm

    nets = (
        toys.net(8),
        bare._replace(init=without_bias, apply=lambda *a: no_bias(bare, *a)),
    )
    names = zip(("plain", "bare"), nets, strict=True)
    cohorts = [federation.Cohort(n, net, (i,)) for i, (n, net) in enumerate(names)]
    x = jax.ShapeDtypeStruct((1, toys.INPUT), jnp.float32)
    with pytest.raises(UserError, match=r"'bare'.*'bias'.* from nothing into \(5,\)"):
        fit.check_cohorts(lg_fedavg(toys.SPEC), cohorts, toys.SPEC, x)


def no_bias(net, params, *rest):
    """The output of a network whose head has no bias."""
    head = {**params["head"], "bias": jnp.zeros(5)}
    return net.apply({**params, "head": head}, *rest)


# FedDistill


def test_the_default_distance_is_pytorchs():
    """Golden `loss_b8_k10_d32`: targets softmax(prototypes[:, :K][labels])."""
    z_BC = golden("prototypes")[:, :10][golden("labels")]
    got = fd.softmax_ce(golden("logits"), z_BC, jnp.ones(8))
    np.testing.assert_allclose(got, golden("feddistill_softmax_ce"), atol=1e-6)


def test_the_three_distances_are_their_formulas():
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


def test_feddistill_without_its_term_is_local_training():
    assert toys.gap(toys.run(fd.feddistill(toys.SPEC, lam=0.0)).params, alone()) == 0


@pytest.mark.parametrize("distance", DISTANCES)
def test_the_loss_is_cross_entropy_until_there_are_logits(distance):
    z = Protos(jnp.asarray(RNG.normal(size=(5, 5))), jnp.float32([1, 1, 0, 0, 1]))
    method = fd.feddistill(toys.SPEC, lam=0.7, distance=distance)
    none = z.replace(count=jnp.zeros(5))
    first, later = (on_batch(method, fd.FedDistillState(p)) for p in (none, z))
    plain = on_batch(local(toys.SPEC))
    assert toys.gap(first[:2], plain[:2]) < 1e-6
    logits = outputs()
    target = np.where(np.asarray(z.count)[Y][:, None] > 0, z.mean[Y], logits)
    want = plain[0] + 0.7 * distance(logits, target, jnp.ones(6))
    np.testing.assert_allclose(later[0], want, rtol=1e-5)
    assert toys.gap(later[1], first[1]) > 1e-3


def test_logits_are_collected_per_class_while_training_and_averaged_over_holders():
    method, net = fd.feddistill(toys.SPEC), toys.net(8)
    server = method.init_server(net, KEY)
    sums = on_batch(method, server)[2]
    up, _ = method.upload(net, None, client((), (), ()), None, None, sums)
    logits = outputs()
    want = [logits[c == Y].mean(0) for c in range(5)]
    np.testing.assert_allclose(up.mean, want, atol=1e-5)
    assert up.count.tolist() == [1] * 5 and not up.disclosed
    mean = jnp.stack([up.mean, 3 * up.mean, 9 * up.mean])
    both = Protos(mean, jnp.float32([[1] * 5, [1, 1, 0, 0, 0], [0, 1, 0, 0, 0]]))
    got = method.update(net, server, both, KEY).logits
    factor = np.float32([2, 13 / 3, 1, 1, 1])
    np.testing.assert_allclose(got.mean, up.mean * factor[:, None], rtol=1e-5)


# FedGH


def test_fedgh_trains_the_header_on_prototypes():
    """One batch of all (c_ij, j) that are there is one step of SGD on their mean."""
    method, net = toys.method(fedgh, server_rate=0.1, server_batch=100), toys.net(8)
    server, here = method.init_server(net, KEY), RNG.random((3, 5)) < 0.5
    proto = np.float32(RNG.normal(size=(3, 5, 8))) * here[..., None]
    label = np.argwhere(here)[:, 1]

    def loss(header):
        logits = net.head(header, proto[here])
        return losses.cross_entropy(logits, label, jnp.ones(len(label)))

    grads = jax.grad(loss)(server)
    want = jax.tree.map(lambda a, g: a - 0.1 * g, server, grads)
    up = Protos(jnp.asarray(proto), jnp.float32(here))
    assert toys.gap(method.update(net, server, up, KEY), want) < 1e-6
    nobody = up.replace(count=0 * up.count)
    assert toys.gap(method.update(net, server, nobody, KEY), server) == 0


def test_more_epochs_of_fedgh_fit_the_prototypes():
    net = toys.net(8)
    up = Protos(jnp.asarray(RNG.normal(size=(2, 5, 8)), jnp.float32), jnp.ones((2, 5)))

    def wrong(epochs):
        options = {"server_rate": 0.5, "server_epochs": epochs, "server_batch": 4}
        method = toys.method(fedgh, **options)
        header = method.update(net, method.init_server(net, KEY), up, KEY)
        logits = net.head(header, up.mean.reshape(-1, 8))
        return np.sum(np.argmax(logits, -1) != np.tile(np.arange(5), 2))

    assert wrong(100) < wrong(0)


# Costs and configurations

PRINTED = {  # millions for FML and FedKD, and the network that gives them
    "CIFAR-10": ("34.32", "30.66", 853_000 + 500 * 10),
    "GTSRB-43": ("35.03", "31.29", 854_196 + 501 * 43),
    "CIFAR-100": ("36.12", "32.26", 853_000 + 500 * 100),
    "Flowers-102": ("36.21", "32.34", 854_196 + 501 * 102),
    "Tiny ImageNet": ("38.12", "34.05", 853_000 + 500 * 200),
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_printed_costs_of_fml_and_fedkd(name):
    """T Table 1, 20 clients, d = 500. Two columns count the 4-layer CNN of hidden width
    d exactly, the three shared with S a body rounded to 0.853M and no bias of the head.
    """
    *printed, size = PRINTED[name]
    for method, want in zip((fml, fedkd), printed, strict=True):
        made = method(Spec(0, 500), aux=toys.net(8))
        found = made.nominal([1] * 20, {"aux": size})
        assert f"{found / 1e6:.2f}" == want


@pytest.mark.parametrize("classes", [10, 43, 102])
def test_the_default_auxiliary_network_is_that_of_the_exact_columns(classes):
    c, spec = config.experiment("fml", "cifar10"), Spec(classes, 500)
    shapes = {"num_classes": classes, "feat_dim": 500, "input_shape": (32, 32, 3)}
    network = partial(models.build, **shapes)
    method = build.build_method(c.method, spec, network=network)
    found = nominal.parameters(method, network("mlp"))
    assert c.method.aux == "cnn4_d" and found["aux"] == 854_196 + 501 * classes


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections
def test_a_configuration_brings_networks_targets_and_costs():
    c = config.load("configs/fedkd.py:spiral,code")
    exp = build.experiment(c, "cpu")
    build.check(exp)
    found, net = cost.cost_of(exp), exp.cohorts[0].net
    sizes = nominal.parameters(exp.method, net)
    assert sizes == {"net": 242, "body": 230, "head": 12, "aux": 242, "project": 4}
    assert found.nominal == round(FEDKD_RATIO * 2 * 10 * 242)
    assert 0 < found.scalars_up <= 10 * 242 and c.method.target == "attached"
    for wrong, words in (("cnn4_d", "cnn4.* image"), ("cnn5", "method.aux.*cnn4")):
        c.method.aux = wrong
        with pytest.raises(UserError, match=words):
            build.experiment(c, "cpu")
