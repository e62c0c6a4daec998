"""Traffic of a round of each method, from labels alone.

Sizes depend on the shapes of the messages and on the classes of each client. One round
of `federation` runs with networks of these shapes that ignore their input, on one
example per class of a client. The results of the server are not used, and XLA removes
their computation.

A client sends the classes of its training data. Statistics that are collected while
training (FedDistill, `method.collect=train_pass`) lack classes outside whole batches,
so there the numbers are upper bounds. The number of singular values that FedKD sends
depends on its auxiliary network; here that is a new one.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import optax
import pandas as pd

from jaxproto import wire
from jaxproto.config import method_fields
from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method
from jaxproto.core.types import Examples, Net, NetOutput, Shard, Spec, Tree
from jaxproto.errors import UserError, group_by_reason
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.check import check_experiment
from jaxproto.experiment.method_builder import build_method, public_inputs
from jaxproto.lab.analysis.frames import data_frame
from jaxproto.methods import METHODS
from jaxproto.round import execution, federation
from jaxproto.round.client import LocalTraining
from jaxproto.round.federation import Cohort, RoundInputs
from jaxproto.round.participation import Participation
from jaxproto.summary.nominal_cost import classes_held, nominal
from jaxproto.summary.table_formats import TableView
from jaxproto.wire import EXACT, HEADER, Wire

ONE_NUMBER = np.zeros(1, np.float32)


class Cost(NamedTuple):
    """Costs of a round after the first in which all clients take part."""

    nominal: int | None  # scalars by the papers' formula, if there is one
    scalars_up: int
    scalars_down: int
    bytes_up: int
    bytes_down: int
    once: int  # bytes down before the first round


class Traffic(NamedTuple):
    """The messages of a round, and their sizes."""

    pre_uploads: Tree  # [K, ...] packed, as `up`; () without a first exchange
    up: Tree  # [K, ...] packed
    down: Tree  # packed
    scalars: tuple  # up [K], down []
    bytes: tuple  # up [K], down []


def constant_network(net: Net, spec: Spec) -> Net:
    """Returns a network of the same shapes whose features ignore the input."""
    shapes = jax.eval_shape(net.init, jax.eval_shape(make_key, 0))

    def init(key):
        return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)

    def apply(params, norm, x, train, key=None):
        feat_BD = jax.random.normal(make_key(0), (len(x), spec.feat_dim))
        return NetOutput(feat_BD, net.head(params["head"], feat_BD), norm)

    return Net(init, apply, net.head)


def round_messages(
    method: Method,
    net: Net,
    spec: Spec,
    count_KC,
    formats: Wire = EXACT,
    *,
    public_C: Sequence[int] = (),
    like: np.ndarray = ONE_NUMBER,
) -> Traffic:
    """Returns the messages of one round; JAX traces it.

    Args:
      net: network of any cohort; clients of all cohorts send the same shapes.
      count_KC: training examples per client and class.
      formats: formats of the values on the wire.
      public_C: classes that have public examples.
      like: one input, whose shape and dtype all examples have.
    """
    net, key = constant_network(net, spec), make_key(0)
    method = method.collecting()
    ids = tuple(range(len(count_KC)))
    cohort = Cohort("hollow", net, ids, execution.in_chunks(len(ids)))
    local = LocalTraining(optax.sgd(0.1), epochs=1, batch_size=spec.num_classes)
    data = one_example_per_class(count_KC, public_C, like)
    participants = Participation(*[jnp.ones(len(count_KC), bool)] * 2)
    clients = federation.init_cohort(method, local, cohort, key, count_KC)
    server = method.init_server(net, key)
    sent = federation.broadcast(method, server, formats)
    inputs = RoundInputs(method, local, formats, participants, sent.message, key)
    pre, pre_report = federation.pre_upload_cohort(inputs, cohort, clients, *data)
    pre_uploads = wire.unpack(pre.up)
    if method.two_exchanges:
        server = method.pre_aggregate(server, pre_uploads, key)
        sent = federation.broadcast(method, server, formats)
        inputs = inputs._replace(down=sent.message)
    _, uploads, report = federation.train_cohort(inputs, cohort, clients, *data)
    server = method.update(net, server, wire.unpack(uploads.up), key)
    if method.two_exchanges:
        server = method.pre_aggregate(server, pre_uploads, key)
    down = federation.broadcast(method, server, formats)
    second_header = HEADER if method.two_exchanges else 0  # of a message down
    return Traffic(
        pre_uploads=pre.up,
        up=uploads.up,
        down=wire.for_client(wire.pack(method.broadcast(server), formats.down), 0),
        scalars=(report.scalars + pre_report.scalars, down.scalars),
        bytes=(report.bytes + pre_report.bytes, down.bytes + second_header),
    )


def one_example_per_class(
    count_KC, public_C: Sequence[int], like
) -> tuple[Examples, Shard]:
    """Returns a pool with an example per class, and each client's rows of it."""
    classes = count_KC.shape[1]
    label = np.asarray([*range(classes), *public_C], np.int32)
    public = jnp.arange(classes, len(label)) if len(public_C) else None
    held_KC = count_KC > 0
    index_KC = jnp.argsort(~held_KC, axis=1, stable=True).astype(jnp.int32)
    x = jnp.zeros((len(label), *like.shape), like.dtype)
    examples = Examples(x, jnp.asarray(label), public)
    return examples, Shard(index_KC, jnp.sum(held_KC, 1))


def message_sizes(
    method: Method, net: Net, spec: Spec, count_KC, formats: Wire = EXACT, **more
) -> Traffic:
    """Returns the sizes of a round; takes the arguments of `round_messages`."""

    def sizes(count_KC):
        traffic = round_messages(method, net, spec, count_KC, formats, **more)
        return traffic._replace(pre_uploads=(), up=(), down=())

    return jax.device_get(jax.jit(sizes)(jnp.asarray(count_KC, jnp.float32)))


def cost_of(exp: Experiment) -> Cost:
    """Returns the cost of a configured method."""
    train_KC, classes_K = exp.counts.train, classes_held(exp).sum(1)
    clients = len(train_KC)
    net = exp.cohorts[0].net
    inputs = {"public_C": public_classes(exp), "like": exp.dataset.x[0]}
    sizes = message_sizes(exp.method, net, exp.spec, train_KC, exp.formats, **inputs)
    setup = wire.pack(sent_once(exp), exp.formats.down)
    return Cost(
        nominal=nominal(exp.method, net, classes_K),
        scalars_up=int(sizes.scalars[0].sum()),
        scalars_down=int(np.broadcast_to(sizes.scalars[1], clients).sum()),
        bytes_up=int(sizes.bytes[0].sum()),
        bytes_down=int(np.broadcast_to(sizes.bytes[1], clients).sum()),
        once=int(wire.message_bytes(setup)) * clients,
    )


def sent_once(exp: Experiment) -> Tree:
    """Returns the message before the first round, public examples included."""
    rows = exp.dataset.public if exp.method.sends_public else None
    if rows is None:
        return exp.method.setup
    public = {"x": exp.dataset.x[rows], "y": exp.dataset.y[rows]}
    return {"setup": exp.method.setup, "public": public}


def public_classes(exp: Experiment) -> list[int]:
    """Returns the classes of which server and clients share examples."""
    public = exp.dataset.public
    return [] if public is None else np.unique(exp.dataset.y[public]).tolist()


def method_of(config: ml_collections.ConfigDict, exp: Experiment, name: str) -> Method:
    """Returns the configured method, or another with the defaults of its fields.

    Raises:
      UserError: it does not fit the experiment.
    """
    fields = config.method if name == config.method.name else method_fields(name)
    num_examples = sum(map(len, exp.partition.train))
    inputs = num_examples, config, exp.network, public_inputs(exp.dataset)
    return build_method(ml_collections.ConfigDict(fields), exp.spec, *inputs)


def experiment_of_each_method(config, exp: Experiment) -> dict[str, Experiment | str]:
    """Returns the experiment under every method, or why it does not fit."""
    experiments: dict[str, Experiment | str] = {}
    for name in METHODS:
        try:
            changed = exp._replace(method=method_of(config, exp, name))
            check_experiment(changed)
            experiments[name] = changed
        except UserError as e:
            experiments[name] = str(e)
    return experiments


def side_by_side(config, exp: Experiment) -> dict[str, Cost | str]:
    """Returns the cost of every method on this partition, or why it does not fit."""
    experiments = experiment_of_each_method(config, exp)
    return {k: v if isinstance(v, str) else cost_of(v) for k, v in experiments.items()}


def table(costs: Mapping[str, Cost | str], exp: Experiment) -> TableView:
    """Returns one row per method; a note says why a method does not fit."""
    held, trained = classes_held(exp).sum(), (exp.counts.train > 0).sum()
    about = (
        f"{len(exp.counts.train)} clients hold {held} client-class pairs ({trained} in "
        f"training data) of {exp.spec.num_classes} classes; feat_dim "
        f"{exp.spec.feat_dim}; {exp.formats.up} up, {exp.formats.down} down; every "
        "client takes part; nominal scalars are the papers' formula."
    )
    no_cost = (None,) * len(Cost._fields)
    reasons = {name: why for name, why in costs.items() if isinstance(why, str)}
    rows = ((k, *(no_cost if k in reasons else cost)) for k, cost in costs.items())
    head = ("method", *(name.replace("_", " ") for name in Cost._fields))
    notes = (about, *group_by_reason(reasons))
    return TableView("Cost of a round, all clients", head, tuple(rows), notes)


def cost(config: ml_collections.ConfigDict, every: bool = False) -> pd.DataFrame:
    """Returns the scalars and bytes of a round: `jaxproto cost` from Python.

    Nothing is trained. `frame.attrs["notes"]` has the notes of the table.

    Args:
      config: see `jaxproto.default_config`.
      every: whether the frame has a row per method, or one of the configured method.
    """
    return data_frame(view(config, every))


def view(config: ml_collections.ConfigDict, every: bool) -> TableView:
    """Returns the table of one configuration, or of every method."""
    exp = build.experiment(config, jax.default_backend())
    if not every:
        check_experiment(exp)
    name = config.method.name
    costs = side_by_side(config, exp) if every else {name: cost_of(exp)}
    return table(costs, exp)
