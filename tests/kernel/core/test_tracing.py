"""Traces of functions of users: equal ones are accepted, others are refused."""

import functools
import random
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.every import check_every

from jaxproto.core.tracing import shapes_of
from jaxproto.errors import ExplainedError, describe_failure

X = jax.ShapeDtypeStruct((4,), jnp.float32)


class Row(NamedTuple):
    a: object
    b: object


def seeded(x):
    return x * np.random.default_rng(0).normal(size=4)


def reseeded(x):
    random.seed(0)
    return x * random.random()


def new_key(x):
    return x + jax.random.normal(jax.random.key(7), x.shape)


KEY = jax.random.key(3)


def key_of_module(x):
    return x + jax.random.normal(KEY, x.shape)


def callback(x):
    host = functools.partial(np.multiply, 2.0)
    return jax.pure_callback(host, x, x)


def custom(x):
    @jax.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (f(x), None), lambda _, g: (g * 3,))
    return jax.grad(lambda x: f(x).sum())(x)


def set_of_objects(x):
    parts = {lambda x, n=n: x * n for n in range(20)}  # ordered by their addresses
    return sum(f(x) for f in parts)


def scanned(x):
    table = jnp.asarray(np.arange(4.0))
    return jax.lax.scan(lambda c, row: (c + row, {"a": c * table}), x, x)


def conditional(x):
    return jax.lax.cond(x.sum() > 0, lambda: Row(x, 1), lambda: Row(-x, 2))


def nothing(x):
    return None


EQUAL = (
    seeded,
    reseeded,
    new_key,
    key_of_module,
    callback,
    custom,
    set_of_objects,
    scanned,
    conditional,
    nothing,
    jax.jit(lambda x: jnp.sort(x) + np.ones(4)),
    jax.checkpoint(lambda x: jnp.sin(x)),
)


def random_shift(x):
    return jnp.roll(x, np.random.randint(1 << 20))


def random_slice(x):
    return jnp.concatenate([x] * 1000)[np.random.randint(3900) :][:3]


def random_constant(x):
    return x + jnp.asarray(np.random.rand(4))


def random_output(x):
    return np.random.rand(4).astype(np.float32)


def random_in_a_loop(x):
    return jax.lax.fori_loop(0, 3, lambda i, x: x * np.random.rand(), x)


def random_key(x):
    return x + jax.random.normal(jax.random.key(np.random.randint(1 << 30)), x.shape)


def random_choice_of_functions(x):
    return random.choice((jnp.sin, jnp.cos, jnp.tanh, jnp.exp))(x)


def random_size(x):
    return jnp.ones(np.random.randint(1 << 20))


DIFFERENT = (
    random_shift,
    random_slice,
    random_constant,
    random_output,
    random_in_a_loop,
    random_key,
    random_choice_of_functions,
    random_size,
)


def test_functions_whose_traces_are_equal_pass():
    check_every(EQUAL, lambda f: shapes_of(f, X, times=3))


def test_functions_whose_traces_differ_are_refused():
    def check(f):
        with pytest.raises(ExplainedError, match=r"jax\.random"):
            shapes_of(f, X, times=12)

    check_every(DIFFERENT, check)


def test_a_counter_is_refused():
    calls = []

    def counts(x):
        calls.append(1)
        return x * len(calls)

    with pytest.raises(ExplainedError, match="a counter"):
        shapes_of(counts, X)


def test_a_kept_value_is_named_with_its_function():
    kept = []

    def keeper(x):
        kept.append(x * 2)
        return x

    shapes_of(keeper, X)
    with pytest.raises(jax.errors.UnexpectedTracerError) as e:
        shapes_of(lambda x: x + kept[0], X)
    assert "a traced value that keeper keeps for later" in describe_failure(e.value)
    assert f"of {__file__}" in describe_failure(e.value)
    with pytest.raises(jax.errors.UnexpectedTracerError):
        shapes_of(lambda x: kept[0], X)
