"""LG-FedAvg, FedPer, FedDistill, FedGH."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.averaging import SIZES_K, drawn
from support.every import every
from support.exchange import KEY, X, Y, client, golden, on_batch, output

from jaxproto import losses, transforms
from jaxproto.methods import METHODS
from jaxproto.methods import feddistill as fd
from jaxproto.methods.fedgh import fedgh
from jaxproto.methods.local import local
from jaxproto.storage import checkpoint
from jaxproto.types import Protos

pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn

RNG = np.random.default_rng(3)
SHARED = {"lg_fedavg": ("head", "body"), "fedper": ("body", "head")}


@every(SHARED)
def test_the_shared_part_is_the_mean_weighted_by_examples_or_stays(name):
    """A lost upload counts nothing; the other part never leaves and stays apart."""
    method, (shared, own) = METHODS[name](toys.SPEC), SHARED[name]
    r = toys.run(method, rounds=2, sampler=toys.only(*range(6), reports=range(5)))
    nets = [r.params[i]["net"] for i in range(6)]
    parts = [net[shared] for net in nets[:5]]
    for size_K, same in ((SIZES_K[:5], True), (np.ones(5), False)):
        mean = jax.tree.map(lambda *a, n=size_K: np.average(a, 0, n), *parts)
        gap = toys.gap(mean, r.server)
        assert gap < 1e-6 if same else gap > 1e-4
    nothing = jax.tree.map(np.zeros_like, r.report.up)
    assert toys.gap(method.update(None, r.server, nothing, None), r.server) == 0
    assert r.report.up._fields == (shared, "size")
    assert all(toys.gap(a[own], b[own]) > 1e-2 for a, b in pairwise(nets))
    mine = method.receive(r.params[0], r.server)["net"]
    assert toys.gap(mine, {shared: r.server, own: nets[0][own]}) == 0


def test_lg_fedavg_predicts_by_the_own_and_by_the_received_head():
    method, net = METHODS["lg_fedavg"](toys.SPEC), toys.net(8)
    params, norm, _ = method.init_client(net, KEY)
    head = drawn(params["net"]["head"], 1, ())
    scores = method.predict(net, client(params, norm, ()), jnp.asarray(X), head)
    feat = net.apply(params["net"], norm["net"], X, False).feat
    assert toys.gap(scores["received"], feat @ head["kernel"] + head["bias"]) < 1e-5
    assert toys.gap(scores["head"], scores["received"]) > 0.1


def test_distances_are_their_formulas_and_the_default_is_pytorchs():
    """Golden `loss_b8_k10_d32`: targets softmax(prototypes[:, :K][labels])."""
    of = "logits", "prototypes", "labels", "feddistill_softmax_ce"
    logits, z, y, want = golden(*of)
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
