"""Prototype transforms compose, and keep what they say they keep."""

import jax
import jax.numpy as jnp
import numpy as np
from support.fast_jit import jit

from jaxproto import transforms
from jaxproto.types import Protos

P = Protos(jnp.asarray([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0]]), jnp.asarray([7.0, 2, 0]))


def applied(transform):
    return jit(lambda p: transforms.apply(transform, p))(P)


def test_a_chain_applies_from_left_to_right_and_an_empty_one_changes_nothing():
    jax.tree.map(np.testing.assert_array_equal, applied(transforms.IDENTITY), P)
    both = transforms.chain(transforms.align(), transforms.scale(5.0))
    length = np.linalg.norm(applied(both).mean[:2], axis=1)
    np.testing.assert_allclose(length, 5, rtol=1e-5)


def test_alignment_leaves_absent_classes_absent_and_hidden_counts_tell_presence_only():
    q = applied(transforms.THOMSON)
    np.testing.assert_array_equal(q.count, P.count)
    np.testing.assert_array_equal(q.mean[2], 0)
    np.testing.assert_allclose(q.mean[0], -q.mean[1], atol=0.05)  # two points: opposite
    np.testing.assert_array_equal(applied(transforms.hide_count()).count, [1, 1, 0])


def test_carry_over_keeps_the_last_prototype_in_the_shape_of_what_reaches_it():
    """Compresses two coordinates to one before the last prototypes are kept."""
    keep = transforms.CARRY_OVER
    first, state = keep.update(P, keep.init(P))
    gone = Protos(jnp.zeros((3, 2)), jnp.asarray([0.0, 0.0, 1.0]))
    second, _ = keep.update(gone, state)
    np.testing.assert_array_equal(first.count, P.count)
    np.testing.assert_array_equal(second.mean[:2], P.mean[:2])
    np.testing.assert_array_equal(second.count > 0, [True, True, True])
    index_CS = jnp.asarray([[0], [1], [0]])
    both = transforms.chain(transforms.compress(index_CS), transforms.CARRY_OVER)
    start = both.init(P)
    sent, state = both.update(P, start)
    assert start[1].mean.shape == sent.mean.shape == state[1].mean.shape == (3, 1)


def test_an_alignment_says_how_many_iterations_it_took_and_what_it_gained():
    both = transforms.chain(transforms.IDENTITY, transforms.align(max_steps=7))
    start = jit(both.init)(P)
    _, state = jit(both.update)(P, start)
    seen = transforms.diagnostics_of({"else": jnp.zeros(3), "state": state})
    assert seen["alignment_iterations"] == 7
    assert seen["alignment_energy_before"] > seen["alignment_energy_after"]
    assert 0.49 < seen["alignment_force"] < 0.53  # two points face to face: 1 / 2
    before = transforms.diagnostics_of(start)
    assert list(before) == list(seen) and np.isnan(list(before.values())).all()
    kept = transforms.CARRY_OVER.init(P)
    assert transforms.diagnostics_of(kept) == {}  # nothing of others
