"""Bodies computed in bfloat16: parameters, features and sums stay float32."""

import functools
from functools import partial

import jax
import jax.extend
import jax.numpy as jnp
import numpy as np
import pytest
from support import networks
from support.every import every
from support.fast_jit import jit
from support.networks import KEY, relative

from jaxproto import config
from jaxproto.models.ops import conv, ops
from jaxproto.training import runner

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it

IMAGES = ("cnn4", "resnet4", "mobilenet_v2", "shufflenet_v2_x1_0", "efficientnet_b0")


@functools.cache
def build(name, dtype, form="CPU"):
    options = {"compute_dtype": dtype, "ops": getattr(ops, form)}
    return networks.build(name, (16, 16, 3), 3, 16, **options)


def start(name, key):
    x = jax.random.normal(jax.random.key(1), (16, 16, 16, 3))
    return *build(name, "float32").init(key), x


def traced(name, form):
    """A step in bfloat16 as a jaxpr; what leaves the body is in float32."""
    given = jax.eval_shape(partial(start, name), KEY)
    step = networks.step(build(name, "bfloat16", form))
    made, out = jax.make_jaxpr(step, return_shape=True)(*given)
    assert {a.dtype for a in jax.tree.leaves(out)} == {jnp.dtype("float32")}
    return made


@every(IMAGES)
def test_on_accelerators_products_are_in_bfloat16(name):
    lines = str(traced(name, "LAX")).splitlines()
    kinds = "dot_general[", "conv_general_dilated["
    products = [line for line in lines if any(kind in line for kind in kinds)]
    single = [line for line in products if ":f32[" in line.split("=")[0]]
    assert len(single) <= 3 < len(products)  # the head, forward and twice backward


def equations(jaxpr):
    """All equations, those of functions within it too."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in jax.extend.core.jaxprs_in_params(equation.params):
            yield from equations(inner)


ARITHMETIC = {"add", "add_any", "sub", "mul", "div", "max", "reduce_sum", "rsqrt"}


@every(IMAGES)
def test_on_a_cpu_operands_of_products_alone_are_in_bfloat16(name):
    half, products = jnp.dtype("bfloat16"), 0
    for equation in equations(traced(name, "CPU").jaxpr):
        operands = {v.aval.dtype for v in equation.invars}
        results = {v.aval.dtype for v in equation.outvars}
        name_ = equation.primitive.name
        assert half not in results | operands or name_ not in ARITHMETIC
        if name_ == "dot_general":
            assert half not in results
            products += operands == {half}
    assert products >= 3  # of one layer: forward and twice backward


def test_numbers_are_those_of_float32_to_its_precision():
    given = jit(partial(start, "resnet4"))(KEY)
    dtypes = "bfloat16", "float32"
    steps = (jit(networks.step(build("resnet4", dtype))) for dtype in dtypes)
    ((_, out), grad), ((_, right), want) = (step(*given) for step in steps)
    assert 0 < relative(out.feat, right.feat) < 0.05
    assert relative(out.norm, right.norm) < 0.02
    assert relative(grad, want) < 0.2


def test_sums_of_a_depthwise_kernels_gradient_are_in_float32():
    """Sums of ones in bfloat16 stop at 256."""
    x = jnp.ones((64, 16, 16, 2), jnp.bfloat16)
    kernel = jnp.ones((1, 1, 1, 2), jnp.bfloat16)
    grad = jax.grad(lambda k: jnp.sum(conv.depthwise_shift(x, k).astype(jnp.float32)))
    np.testing.assert_array_equal(grad(kernel).astype("float32").ravel(), 64 * 16 * 16)


def test_a_run_in_bfloat16_learns(tmp_path):
    c = config.experiment("protonorm", "digits")
    c.model.group, c.model.compute_dtype = "mlp", "bfloat16"
    c.rounds, c.data.clients = 6, 4
    summary = runner.run(c, tmp_path / "run")
    assert summary["status"] == "finished"
    assert summary["rules"]["head"]["pooled"]["best"] > 0.5
