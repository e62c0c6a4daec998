"""Local training: every client alone, without communication.

The lower bound of every comparison.
"""

from jaxproto import losses
from jaxproto.method import Method
from jaxproto.types import Array, Batch, LossAux, Net, NetOutput, Spec, Tree


def forward(
    net: Net, params: Tree, norm: Tree, batch: Batch, name: str = "net"
) -> tuple[NetOutput, Array]:
    """Returns the output in training of a client's network, and its cross-entropy."""
    out = net.apply(params[name], norm[name], batch.x, True, batch.key)
    return out, losses.cross_entropy(out.logits, batch.y, batch.mask)


def local(spec: Spec) -> Method:
    """Cross-entropy on the client's own data."""

    def loss(net, params, norm, batch, down, client):
        out, ce = forward(net, params, norm, batch)
        return ce, LossAux({"net": out.norm})

    return Method(
        init_server=lambda net, key: (),
        loss=loss,
        upload=lambda net, before, after, data, down, sums: ((), ()),
        update=lambda net, server, up, key: server,
        title="Local",
        nominal=lambda classes_K, sizes: 0,
    )
