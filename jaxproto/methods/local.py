"""Local training: every client alone, without communication.

The lower bound of every comparison.
"""

from jaxproto.core.method import Method
from jaxproto.core.types import LossAux, Spec
from jaxproto.prototypes import losses


def local(spec: Spec) -> Method:
    """Cross-entropy on the client's own data."""

    def loss(net, params, norm, batch, down, client):
        out, ce = losses.output_and_ce(net, params["net"], norm["net"], batch)
        return ce, LossAux({"net": out.norm})

    return Method(
        init_server=lambda net, key: (),
        loss=loss,
        upload=lambda net, before, after, data, down, sums: ((), ()),
        update=lambda net, server, up, key: server,
        title="Local",
        nominal=lambda classes_K, sizes: 0,
    )
