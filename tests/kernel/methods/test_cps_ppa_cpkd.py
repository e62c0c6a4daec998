"""CPS, PPA and CPKD against their equations."""

import functools

import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.exchange import COUNT, KEY, MEAN, Y, client, exchange

from jaxproto import config
from jaxproto.core.types import Protos
from jaxproto.experiment import build, method_builder
from jaxproto.methods import tinyproto as tp
from jaxproto.methods.cps_ppa_cpkd import cpkd, cps_ppa_cpkd
from jaxproto.methods.fedproto import fedproto, no_class_weights, train_pass
from jaxproto.methods.fedtgp import fedtgp
from jaxproto.prototypes import losses, masks

N = int(COUNT.sum())
NONE = {"masks": masks.full_masks, "scaling": tp.UNSCALED, "distill": no_class_weights}


def method(**arguments):
    fixed = {"s": 3, "num_examples": N, "collect": train_pass, "server_epochs": 2}
    fixed |= {"reg": losses.l2_of_means, "lam": 0.1, "masks": masks.random_masks}
    return toys.method(cps_ppa_cpkd, **{**fixed, **arguments})


@functools.cache
def exchanged(**arguments):
    return exchange(method(**arguments))


def test_ppa_is_equation_11_and_that_of_tinyproto_at_mu_of_k_over_n():
    """S Eq. 11 and T Eq. 10, 11, here also with masks."""
    want = np.zeros((5, 8))
    for j in range(5):
        for i in range(3):
            want[j] += 5 / N * COUNT[i, j] * MEAN[i, j]
    n_known, unknown = (
        exchanged(masks=masks.full_masks, num_examples=n).server.protos.mean
        for n in (N, 0)
    )
    np.testing.assert_allclose(n_known, want, atol=1e-5)
    np.testing.assert_allclose(want, unknown * 5 / N, rtol=1e-4, atol=1e-5)
    kind = {"s": 3, "collect": train_pass, "compare": tp.SPARSE}
    kind |= {"reg": losses.l2_of_means, "lam": 0.1}
    a = exchange(toys.method(tp.tinyproto, mu=5 / N, **kind))
    b = exchange(method(distill=no_class_weights, compare=tp.SPARSE))
    assert toys.gap(a.server, b.server) == 0 and a.loss == b.loss


def test_classes_weigh_by_their_share_and_cpkd_multiplies_their_distance():
    """Eq. 12, also on the distances of class means: only the weights differ."""
    got = cpkd(client((), (), jnp.asarray([2.0, 8.0, 0.0, 4.0])))
    np.testing.assert_allclose(got, [0.25, 1.0, 0.0, 0.5])
    np.testing.assert_array_equal(cpkd(client((), (), jnp.full(4, 3.0))), np.ones(4))
    np.testing.assert_array_equal(cpkd(client((), (), jnp.zeros(4))), np.zeros(4))
    kinds = [{"base": tp.on_fedproto}, {"distill": cpkd}, {"lam": 0.0}]
    kinds += [{"distill": cpkd, "reg": losses.mse_mean}]
    off, on, pure, squared = (exchanged(**NONE | kind) for kind in kinds)
    feat, target = on.feat, on.down
    beta = COUNT[0] / COUNT[0].max()
    away = [np.linalg.norm(feat[j == Y].mean(0) - target.mean[j]) for j in range(5)]
    rho = away * (target.count > 0)
    np.testing.assert_allclose(off.loss - pure.loss, 0.1 * np.sum(rho), rtol=1e-4)
    want = 0.1 * np.sum(beta * rho)
    np.testing.assert_allclose(on.loss - pure.loss, want, rtol=1e-4)
    square = np.mean((feat - target.mean[Y]) ** 2, -1) * (target.count[Y] > 0)
    want = 0.1 * np.mean(beta[Y] * square)
    np.testing.assert_allclose(squared.loss - pure.loss, want, rtol=1e-4)


BASES = {"fedproto": (tp.on_fedproto, fedproto), "fedtgp": (tp.on_fedtgp, fedtgp)}


@pytest.mark.parametrize(
    "base", ["fedproto", pytest.param("fedtgp", marks=pytest.mark.long)]
)
def test_without_components_it_is_the_base(base):
    of, plain = BASES[base]
    given = {"reg": losses.l2_of_means, "lam": 0.1, "collect": train_pass}
    given |= {"server_epochs": 2} if plain is fedtgp else {}
    a, b = exchanged(base=of, **NONE), exchange(toys.method(plain, **given))
    assert toys.gap(a.server.protos, b.server.protos) == 0 and a.loss == b.loss


def test_the_number_of_training_examples_is_given_or_the_partitions():
    c = config.load("configs/cps_ppa_cpkd.py:spiral")
    c.method.masks = "none"
    exp = build.experiment(c, "cpu")
    n, (classes, dim) = int(exp.counts.train.sum()), exp.spec
    c.method.num_examples = 2 * n
    given = method_builder.build_method(c.method, exp.spec, n)
    up = Protos(jnp.ones((3, classes, dim)), jnp.ones((3, classes)))
    for method, examples in ((exp.method, n), (given, 2 * n)):
        server = method.update(None, method.init_server(None, KEY), up, KEY)
        np.testing.assert_allclose(server.protos.mean, 3 * classes / examples, 1e-5)
