"""Methods and samplers of runs that train nothing."""

import dataclasses

import jax
import jax.numpy as jnp

from jaxproto import METHODS
from jaxproto.round.participation import Participation


def broken(spec):
    """A method whose body gets no gradient and whose scores are NaN."""
    local = METHODS["local"](spec)

    def loss(net, params, *rest):
        body = jax.lax.stop_gradient(params["net"]["body"])
        return local.loss(net, {"net": {**params["net"], "body": body}}, *rest)

    def predict(*args):
        return {rule: a * jnp.nan for rule, a in local.predict(*args).items()}

    return dataclasses.replace(local, loss=loss, predict=predict)


def nobody():
    """Returns a sampler that draws no client."""

    def sampler(key, num_clients, r):
        none = jnp.zeros(num_clients, bool)
        return Participation(none, none)

    return sampler
