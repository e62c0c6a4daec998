"""Interface of methods: a federated algorithm as a value of pure functions."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import jax
import numpy as np

from jaxproto.core.hyperparameters import Real
from jaxproto.core.types import Array, ArrayLike, Client, Net, Tree


def own_network(net: Net, key: Array):
    """Initialises one network per client under the name `net`, and no memory."""
    params, norm = net.init(key)
    return {"net": params}, {"net": norm}, ()


def predict_by_head(net: Net, client: Client, x: Array, down: Tree) -> dict[str, Array]:
    """Returns the rule `head`: the logits of the client's own network."""
    out = net.apply(client.params["net"], client.norm["net"], x, False)
    return {"head": out.logits}


def own_features(net: Net, client: Client, x: Array) -> Array:
    """Returns features [B, D] of the client's own network."""
    return net.apply(client.params["net"], client.norm["net"], x, False).feat


def no_pre_upload(net: Net, client: Client, data, down: Tree):
    """Sends nothing before training, as most methods have one exchange a round."""
    return ()


def every_client(id_K: ArrayLike) -> ArrayLike:
    """Returns True for each client: the results of all clients count."""
    return np.ones(len(id_K), bool)


@dataclasses.dataclass(frozen=True)
class Aggregation:
    """Aggregation of the uploads of a round to the next state of the server.

    With a summand, only sums over the clients are needed: cohorts add them up as
    clients end their training, and no array of all uploads is made.
    """

    finish: Callable
    """`net, server, reduced, key -> server`: state after the sums, or all uploads."""
    summand: Callable | None = None
    """`up -> tree`: summand of one client, zeros for a lost upload; None: no sums."""
    bound: Real | None = None
    """Largest absolute value: an upload beyond it, or with NaN, counts as lost. None:
    any finite value is used, and another one ends the run."""

    def __call__(self, net: Net, server: Tree, up: Tree, key: Array) -> Tree:
        """Returns the next state of the server from uploads [K, ...]."""
        return self.finish(net, server, self.reduced(up), key)

    def reduced(self, up: Tree) -> Tree:
        """Sums the summands of uploads [K, ...]; without summand returns uploads."""
        if self.summand is None:
            return up
        return jax.tree.map(lambda a: a.sum(0), jax.vmap(self.summand)(up))


Nominal = Callable[[Sequence[int], Mapping[str, int]], int]
"""`classes_K, {network: size} -> scalars` of a round, all clients, both directions."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Method:
    """Method: functions for one client or for the server, four of them required.

    A method with two exchanges has `pre_upload`, the message of a client before it
    trains (with parameters after `receive`), and `pre_aggregate`, the server's state
    after these messages; clients then train with the broadcast of that state.

    Uploads of all clients have one shape; an all-zero upload means a lost one. The tree
    of the server's state never changes. Float hyper-parameters may be traced, so that
    no factory branches on them in Python.

    Examples:
        A method that averages heads, one client one vote, from definition to run:

        >>> import dataclasses, tempfile, jax, jaxproto
        >>> from jaxproto import config
        >>> from jaxproto.methods.local import local
        >>> def votes(spec):
        ...     def upload(net, before, after, data, down, sums):
        ...         head = after.params["net"]["head"]
        ...         return (head, jax.numpy.ones(())), after.memory
        ...
        ...     def update(net, server, up, key):
        ...         heads, there_K = up
        ...         return jax.tree.map(lambda a: a.sum(0) / there_K.sum(), heads)
        ...
        ...     return dataclasses.replace(
        ...         local(spec),
        ...         init_server=lambda net, key: net.init(key)[0]["head"],
        ...         receive=lambda own, head: {"net": {**own["net"], "head": head}},
        ...         upload=upload,
        ...         update=update,
        ...     )
        >>> jaxproto.METHODS["votes"] = votes
        >>> c = config.experiment("votes", "digits")
        >>> c.rounds, c.data.clients, c.model.group = 1, 3, "mlp"
        >>> jaxproto.run(c, tempfile.mkdtemp(), quiet)["status"]
        'finished'
    """

    init_server: Callable
    """`net, key -> server`: state of the server before round 1."""
    loss: Callable
    """`net, params, norm, batch, down, client -> scalar, LossAux`: loss of a batch."""
    upload: Callable
    """`net, before, after, data, down, sums -> up, memory`: message after training."""
    update: Callable | Aggregation
    """`net, server, up [K, ...], key -> server`: state after the uploads of a round."""
    init_client: Callable = own_network
    """`net, key -> params, norm, memory`: state of a client before round 1."""
    broadcast: Callable = lambda server: server
    """`server -> down`: message to every participant."""
    receive: Callable = lambda params, down: params
    """`params, down -> params`: parameters of a client when it gets the broadcast."""
    receive_stats: Callable = lambda norm, down: norm
    """`norm, down -> norm`: BatchNorm statistics when a client gets the broadcast."""
    transform_grads: Callable = lambda grads: grads
    """`grads -> grads`: gradients before the optimiser."""
    transform_updates: Callable = lambda updates: updates
    """`updates -> updates`: updates of the optimiser before they are added."""
    trainable: Callable | None = None
    """`step, steps -> tree of bools`: parts of `params` that a local step trains."""
    predict: Callable = predict_by_head
    """`net, client, x, down -> {rule: scores [B, C]}`: predictions by every rule."""
    pre_upload: Callable = no_pre_upload
    """`net, client, data, down -> message`: first of two exchanges, before training."""
    pre_aggregate: Callable = lambda server, ups, key: server
    """`server, ups [K, ...], key -> server`: state after the first of two exchanges."""
    release: Callable | None = None
    """`net, after, data, up, down, key -> up`: message that is sent instead of `up`."""
    setup: Tree = ()
    """Message that is sent once to every client, before round 1."""
    sends_public: bool = False
    """Clients get the public examples before round 1 if True."""
    adjust_sampler: Callable = lambda sampler, server: sampler
    """`sampler, server -> sampler`: sampler of this round."""
    check_input: Callable = lambda x: None
    """`x -> None`: raises UserError if inputs of this shape and type cannot be used."""
    features: Callable = own_features
    """`net, client, x -> [B, D]`: features whose class means are prototypes."""
    scored: Callable = every_client
    """`client ids [K] -> [K]`: clients that count in results; not hostile ones."""
    client_view: Callable = lambda down: down
    """`down -> down`: prototypes as clients use them, for pictures."""
    title: str = ""
    """Name in tables and pictures, as papers print it; "" is `name`."""
    name: str = "this method"
    """Name for messages; a configuration sets it."""
    homogeneous: bool = False
    """All clients must have one architecture if True."""
    nominal: Nominal | None = None
    """Scalars of a round by the formula of the paper (`methods/nominal.py`)."""

    def collecting(self) -> "Method":
        """Returns this method with an aggregation that gets all uploads."""
        whole = self.aggregation
        update = dataclasses.replace(whole, finish=whole.__call__, summand=None)
        return dataclasses.replace(self, update=update)

    @property
    def aggregation(self) -> Aggregation:
        """Aggregation of `update`; a plain function gets all uploads."""
        update = self.update
        return update if isinstance(update, Aggregation) else Aggregation(update)

    @property
    def two_exchanges(self) -> bool:
        """True if clients send a message before they train."""
        return self.pre_upload is not no_pre_upload

    @property
    def first_aggregation(self) -> Aggregation:
        """Aggregation of the messages that clients send before they train."""

        def finish(net, server, messages, key):
            return self.pre_aggregate(server, messages, key)

        return Aggregation(finish)
