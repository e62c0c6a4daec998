"""Bodies computed in bfloat16: parameters, features and sums stay float32."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxproto import config, models
from jaxproto.errors import UserError
from jaxproto.nn import conv, ops, reduce
from jaxproto.training import runner

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it

IMAGES = ("cnn4", "resnet4", "mobilenet_v2", "shufflenet_v2_x1_0", "efficientnet_b0")


@functools.cache
def build(name, dtype, form="CPU"):
    return models.build(
        name,
        input_shape=(16, 16, 3),
        num_classes=3,
        feat_dim=16,
        compute_dtype=dtype,
        ops=getattr(ops, form),
    )


def outputs(name, dtype, form="CPU"):
    """Output, statistics and gradient of a step without dropout, compiled."""
    net = build(name, dtype, form)
    params, norm = build(name, "float32").init(jax.random.key(0))
    x = jax.random.normal(jax.random.key(1), (16, 16, 16, 3))

    def loss(params):
        out = net.apply(params, norm, x, True)
        return jnp.mean(out.feat**2) - jnp.mean(jax.nn.log_softmax(out.logits)), out

    return jax.jit(jax.grad(loss, has_aux=True)), params


def distance(got, want):
    """Norm of the difference over norm, all leaves together."""
    flat = [
        np.concatenate([np.ravel(a) for a in jax.tree.leaves(t)]) for t in (got, want)
    ]
    return np.linalg.norm(flat[0] - flat[1]) / np.linalg.norm(flat[1])


@pytest.mark.parametrize("form", ["CPU", "LAX"])
@pytest.mark.parametrize("name", IMAGES)
def test_everything_that_leaves_the_body_is_float32(name, form):
    step, params = outputs(name, "bfloat16", form)
    grad, out = jax.eval_shape(step, params)
    leaves = jax.tree.leaves((grad, out))
    assert {a.dtype for a in leaves} == {jnp.dtype("float32")}


@pytest.mark.parametrize("form", ["CPU", "LAX"])
@pytest.mark.parametrize("name", IMAGES)
def test_every_product_of_the_body_is_in_bfloat16(name, form):
    step, params = outputs(name, "bfloat16", form)
    text = str(jax.make_jaxpr(step)(params))
    products = [line for line in text.splitlines() if "dot_general[" in line]
    products += [line for line in text.splitlines() if "conv_general_dilated[" in line]
    single = [line for line in products if ":f32[" in line.split("=")[0]]
    assert len(single) <= 3 < len(products)  # the head, forward and twice backward


def test_numbers_are_those_of_float32_to_its_precision():
    half, params = outputs("resnet4", "bfloat16")
    full, _ = outputs("resnet4", "float32")
    (grad, out), (want, right) = half(params), full(params)
    assert 0 < distance(out.feat, right.feat) < 0.05
    assert distance(out.norm, right.norm) < 0.02
    assert distance(grad, want) < 0.2


def test_gradient_of_a_depthwise_kernel_is_summed_in_float32():
    x = jnp.ones((64, 16, 16, 2), jnp.bfloat16)
    kernel = jnp.ones((1, 1, 1, 2), jnp.bfloat16)
    grad = jax.grad(lambda k: jnp.sum(conv.depthwise_shift(x, k).astype(jnp.float32)))
    count = 64 * 16 * 16  # bfloat16 sums of ones stop at 256
    np.testing.assert_array_equal(grad(kernel).astype(jnp.float32).ravel(), count)


def test_short_sums_are_the_sums_for_any_size():
    for shape in [(4, 6, 5, 3), (4, 8, 8, 3), (3, 7)]:
        a = jax.random.normal(jax.random.key(0), shape)
        for got, x in zip(reduce.channel_sums_short(a, a**2), (a, a**2), strict=True):
            want = np.asarray(x, np.float64).reshape(-1, shape[-1]).sum(0)
            np.testing.assert_allclose(got, want, atol=1e-4)


def test_an_unknown_precision_is_named():
    c = config.experiment("local", "digits")
    c.model.compute_dtype = "bfloat17"
    with pytest.raises(UserError, match=r"bfloat17.*bfloat16"):
        runner.run(c)


def test_a_run_in_bfloat16_learns(tmp_path):
    c = config.experiment("protonorm", "digits")
    c.model.group, c.model.compute_dtype, c.rounds, c.data.clients = (
        "mlp",
        "bfloat16",
        6,
        4,
    )
    summary = runner.run(c, tmp_path / "run")
    assert summary["status"] == "finished"
    assert summary["rules"]["head"]["pooled"]["best"] > 0.5
