"""Seconds of the server's step of a round, by method, clients and classes.

    python -m benchmarks.server

The server gets random non-negative prototypes of half of the classes of each client,
and computes its next state. FedProto averages, ProtoNorm averages and aligns, FedTGP
and FedGH train on the uploads. According to ProtoNorm, Section 6.2, the cost of
FedTGP's server grows with the number of clients, and the cost of the alignment does
not.
"""

import sys
from functools import partial

import jax
import jax.numpy as jnp

from benchmarks import measure
from jaxproto import models
from jaxproto.core.jax_settings import make_key
from jaxproto.core.types import Protos, Spec
from jaxproto.methods import METHODS

FLAGS = measure.flag_values(
    "dim",
    methods=(["fedproto", "protonorm", "fedtgp", "fedgh"], "methods"),
    clients=(["10", "20", "50", "100"], "M, number of clients"),
    classes=(["10", "100"], "number of classes K"),
    repeats=3,
)


def uploads(clients: int, spec: Spec) -> Protos:
    """Draws prototypes [M, K, d] of half of the classes of each client, counts 1."""
    mean_key, class_key = jax.random.split(make_key(0))
    mean = jnp.abs(jax.random.normal(mean_key, (clients, *spec)))
    order_MK = jax.random.permutation(
        class_key,
        jnp.tile(jnp.arange(spec.num_classes), (clients, 1)),
        axis=1,
        independent=True,
    )
    present_MK = order_MK < spec.num_classes / 2
    return Protos(mean * present_MK[..., None], present_MK.astype(jnp.float32))


def one(name: str, clients: int, spec: Spec, repeats: int) -> dict:
    """Times one method for one size."""
    method, key = METHODS[name](spec), make_key(1)
    net = models.build(
        "mlp", input_shape=(8, 8, 1), num_classes=spec[0], feat_dim=spec[1]
    )
    arguments = method.init_server(net, key), uploads(clients, spec), key
    step = jax.jit(partial(method.aggregation, net)).lower(*arguments).compile()
    time = measure.timed(measure.waiting(step, *arguments), repeats)
    return {"method": name, "M": clients, "K": spec[0], "d": spec[1], **time.record()}


def main(argv):
    """Measures every method and size."""
    settings = measure.parse(FLAGS, argv, __doc__)
    measured = [
        one(name, clients, Spec(classes, settings["dim"]), settings["repeats"])
        for name in settings["methods"]
        for classes in measure.whole(settings["classes"])
        for clients in measure.whole(settings["clients"])
    ]
    columns = ("method", "K", "M", "s", "min", "max")
    shown = ("method", "K", "M", "median", "min", "max")
    cells = [[row[k] for k in shown] for row in measured]
    view = measure.table("The server's step of a round", columns, cells)
    measure.finish("server", settings, measured, [view])


if __name__ == "__main__":
    main(sys.argv)
