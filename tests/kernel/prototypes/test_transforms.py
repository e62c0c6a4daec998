"""Transforms that hide counts and that keep prototypes."""

import jax.numpy as jnp
import numpy as np

from jaxproto.core.types import Protos
from jaxproto.prototypes import transforms

P = Protos(jnp.asarray([[3.0, 4.0], [1.0, 0.0], [0.0, 0.0]]), jnp.asarray([7.0, 2, 0]))


def test_hidden_counts_say_presence_alone():
    hidden = transforms.apply(transforms.hide_count(), P)
    np.testing.assert_array_equal(hidden.count, [1, 1, 0])
    np.testing.assert_array_equal(hidden.mean, P.mean)


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
