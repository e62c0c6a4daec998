"""Exported programs as bytes, and back."""

import jax
import jax.export
import jax.numpy as jnp
import optax
import pytest
from support.every import check_every

from jaxproto.training import exported_program
from jaxproto.types import Examples, Protos, Statistics

ARGS = (
    Statistics({"b": jnp.arange(3.0)}),
    jnp.ones(3),
    Examples(jnp.ones((2, 8)), jnp.zeros(2, int), shape=(2, 2, 2)),
)


def results(statistics, y, examples):
    """Every kind of node that arguments and results have."""
    protos = Protos(y, statistics.value["b"], disclosed=True)
    moments = optax.ScaleByAdamState(count=y, mu={"a": y}, nu=[y, (y,)])
    return protos, moments, statistics, optax.EmptyState(), examples, None


def exported(f, args=ARGS):
    return jax.export.export(jax.jit(f))(*args)


def test_a_program_comes_back_with_the_trees_of_its_arguments_and_results():
    packed = exported_program.pack("n", exported(results))
    got, want = exported_program.unpack("n", packed, ARGS).call(*ARGS), results(*ARGS)
    assert jax.tree.structure(got) == jax.tree.structure(want)
    assert jax.tree.all(jax.tree.map(lambda a, b: (a == b).all(), got, want))


def test_a_static_field_that_is_no_plain_data_is_refused():
    for static in object(), frozenset([1]):
        program = exported(lambda x, s=static: Protos(x, x, disclosed=s), ARGS[1:2])
        with pytest.raises((SyntaxError, TypeError, ValueError)):
            exported_program.pack("n", program)


def signed(data):
    return b"\n".join([exported_program.digest(b"n", data).encode(), data])


def test_another_type_is_refused():
    """The digest is right: somebody else wrote the file, or another version did."""
    kind = b"jaxproto.types:Protos"
    _, _, data = exported_program.pack("n", exported(results)).partition(b"\n")
    assert kind in data and exported_program.unpack("n", signed(data), ARGS)
    for name in b"jaxproto.types:Nobod", b"jaxproto.types:Client", b"os:system":
        other = data.replace(kind, name.ljust(len(kind), b"."))
        with pytest.raises(exported_program.Damaged):
            exported_program.unpack("n", signed(other), ARGS)


OTHERS = {
    "swapped": (ARGS[1], ARGS[0], ARGS[2]),
    "fewer": ARGS[:2],
    "shape": (ARGS[0], jnp.ones(4), ARGS[2]),
    "type": (ARGS[0], jnp.ones(3, int), ARGS[2]),
    "static": (*ARGS[:2], ARGS[2].replace(shape=(4, 2))),
}


def test_a_program_of_other_arguments_is_refused():
    def check(name, args):
        with pytest.raises(exported_program.Damaged, match="another function"):
            exported_program.unpack("n", packed, args)

    packed = exported_program.pack("n", exported(results))
    check_every(OTHERS.items(), check)
