"""Examples with mask 0 do not count in a loss; a user's loss is refused if they do."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support.every import check_every
from support.refusal import refused
from support.runs import digits

import jaxproto
from jaxproto import METHODS
from jaxproto.experiment import build, loss_mask
from jaxproto.types import LossAux


def with_loss(of_examples, base="local"):
    """A method whose loss is a function of logits, labels and the mask."""

    def loss(net, params, norm, batch, down, client):
        out = net.apply(params["net"], norm["net"], batch.x, True, batch.key)
        value = of_examples(out, batch.y, batch.mask)
        return value, LossAux({**norm, "net": out.norm})

    return lambda spec: dataclasses.replace(METHODS[base](spec), loss=loss)


def entropy(out, y_B):
    return optax.softmax_cross_entropy_with_integer_labels(out.logits, y_B)


def regularised(out, y_B, mask_B):
    """Cross-entropy with the mask, and a term that forgets it."""
    return jnp.sum(entropy(out, y_B) * mask_B) / 2 + 0.1 * jnp.mean(out.feat**2)


WRONG = {
    "without the mask": lambda out, y_B, mask_B: jnp.mean(entropy(out, y_B)),
    "a term without the mask": regularised,
    "counts": lambda out, y_B, mask_B: (
        jnp.sum(y_B) + jnp.sum(out.feat * mask_B[:, None])
    ),
}
RIGHT = {
    "weighted": lambda out, y_B, mask_B: jnp.sum(entropy(out, y_B) * mask_B),
    "where": lambda out, y_B, mask_B: jnp.mean(entropy(out, y_B), where=mask_B > 0),
    "not finite": lambda out, y_B, mask_B: jnp.log(-jnp.sum(out.feat**2)),
}


def test_a_loss_in_which_masked_examples_count_is_refused(monkeypatch):
    def check(of_examples, refusal):
        monkeypatch.setitem(METHODS, "mine", with_loss(of_examples))
        if not refusal:
            jaxproto.check(digits("mine"))
            return
        words = "'mine': loss depends on examples with mask 0", "batch.mask", __file__
        with refused(*words) as e:
            jaxproto.check(digits("mine"))
        assert "\n" not in str(e.value)

    rows = [(f, True) for f in WRONG.values()] + [(f, False) for f in RIGHT.values()]
    check_every(rows, check)


@pytest.mark.long
def test_masked_examples_count_in_no_built_in_loss():
    def check(name):
        exp = build.experiment(digits(name), jax.default_backend())
        shapes = exp.method, exp.cohorts[0].net, exp.local, exp.spec, exp.dataset
        value, other = loss_mask.loss_of_two_batches(*shapes)
        assert np.isfinite(value) and value == pytest.approx(other, rel=1e-5)

    check_every(METHODS, check)
