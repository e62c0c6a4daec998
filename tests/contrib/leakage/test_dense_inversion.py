"""A dense first layer gives single examples back, and says which ones these are."""

import jax
import numpy as np
import optax
import pytest
from support import runs
from support.fast_jit import jit

from jaxproto import models
from jaxproto.contrib import leakage
from jaxproto.contrib.leakage import attack_cases, dense_inversion

LEVELS = np.linspace(-1, 1, 17)


def network(name, shape=(8, 8, 1)):
    net = models.build(name, input_shape=shape, num_classes=10, feat_dim=16)
    params, norm = jit(net.init)(jax.random.key(0))
    return net, {"net": params}, {"net": norm}, shape


@pytest.mark.long
def test_the_first_layer_is_found_with_the_order_of_its_rows():
    shape = (4, 5, 3)
    net, params, norm, _ = network("mlp", shape)
    layer = dense_inversion.first_layer(net, params, norm, shape)
    assert layer.path == ("net", "body", "fc1")
    other = {"kernel": 1, "bias": 2}
    assert layer.of(layer.replaced(params, other)) == other
    x = np.random.default_rng(0).choice(LEVELS, (3, *shape)).astype(np.float32)
    opt = optax.sgd(0.1, momentum=0.9)

    @jax.jit
    @jax.grad
    def gradient(params, x, y):
        logits = net.apply(params["net"], norm["net"], x, True).logits
        of = optax.losses.softmax_cross_entropy_with_integer_labels
        return of(logits, y).mean()

    after, state = params, opt.init(params)
    for i in (0, 1, 2, 0, 1, 2):
        grads = gradient(after, x[i : i + 1], np.array([i]))
        updates, state = opt.update(grads, state)
        after = optax.apply_updates(after, updates)
    found = dense_inversion.invert_first_layer(layer, params, after)
    equal = dense_inversion.psnr_of_pairs(found, x.reshape(3, -1)) > 50
    kept = dense_inversion.has_public_values(found, LEVELS)
    assert equal[kept].any(0).all()  # each of the three is found
    assert equal[kept].any(1).all() and not kept.all()
    assert dense_inversion.first_layer(*network("cnn4_d")) is None


@pytest.mark.long
def test_a_whole_round_gives_training_images_back_but_not_in_int8(tmp_path):
    fields = {"model__group": "mlp", "checkpoint_every": 1, "data__clients": 10}
    runs.run(runs.small("fedavg", "digits", **fields), tmp_path)
    given = [str(tmp_path)], [0, 1, 2], ["float32", "int8"]
    asked = leakage.AttackRequest(*given, sizes=[attack_cases.ROUND])
    exact, coarse = leakage.run_attack("updates", asked).rows
    crafted, _ = leakage.run_attack("updates", asked._replace(broadcast="crafted")).rows
    assert exact["size"] == "round" and exact["kept"] == exact["true"] > 0
    assert coarse["images back"] == coarse["kept"] == 0
    assert crafted["images back"] > exact["images back"]
    assert crafted["examples"] == exact["examples"] > 100  # of all three clients
