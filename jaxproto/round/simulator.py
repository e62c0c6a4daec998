"""Federation as a library: from a method, networks and arrays, no configuration."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxproto import wire
from jaxproto.core import batches
from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method
from jaxproto.core.types import Array, Net, Spec, Tree, is_key
from jaxproto.errors import UserError, choose_from, describe_failure
from jaxproto.metrics.classification import ACCURACY, accuracy
from jaxproto.metrics.metric import Metric
from jaxproto.round import execution, federation, gather, participation
from jaxproto.round.arrays import Pair, check_labels, join_arrays
from jaxproto.round.client import LocalTraining
from jaxproto.round.cohort import (
    Cohort,
    broadcast_shapes,
    check_cohorts,
    group_clients,
    networks_by_client,
    output_shapes,
    score_shapes,
)
from jaxproto.round.evaluation import EvaluationInputs, evaluate_cohort
from jaxproto.round.federation import Model, Parts
from jaxproto.round.uploads import Report


@jax.tree_util.register_pytree_node_class
class Federation:
    """Federation of clients with arrays; `init`, `round` and `evaluate` are pure.

    They run under `jax.jit`, `jax.lax.scan` over rounds and `jax.vmap` over keys, and
    give the numbers of a run with the same data. Results are in the order of `train`.
    A federation is a tree of its arrays: as an argument of a compiled function, its
    data are no constants of the program.

    Examples:
        >>> import jax, numpy as np, optax, jaxproto
        >>> from jaxproto.core.types import Spec
        >>> from jaxproto.methods.fedproto import fedproto
        >>> from jaxproto.models.mlp import amazon_mlp, mlp
        >>> sizes = {"input_shape": (4,), "num_classes": 3, "feat_dim": 8}
        >>> data = [(np.full((6, 4), i / 4), np.arange(6) % 3) for i in range(4)]
        >>> fed = jaxproto.Federation(
        ...     fedproto(Spec(num_classes=3, feat_dim=8)),
        ...     networks={"mlp": mlp(**sizes), "amazon_mlp": amazon_mlp(**sizes)},
        ...     train=data,
        ...     test=data,
        ...     optimizer=optax.sgd(0.05),
        ... )
        >>> model, report = jax.jit(fed.round)(0, fed.init(0), 0)
        >>> report.loss.shape, fed.evaluate(model)["head"].shape
        ((4,), (4,))
    """

    def __init__(
        self,
        method: Method,
        networks: Net | Sequence[Net] | Mapping[str, Net],
        train: Sequence[Pair],
        test: Sequence[Pair],
        optimizer: optax.GradientTransformation,
        *,
        public: Pair | None = None,
        sampler: participation.Sampler | None = None,
        dropout: float | Array = 0.0,
        formats: wire.Wire = wire.EXACT,
        metrics: Sequence[Metric] = (),
        clients_at_once: str = "auto",
        **local: Any,
    ):
        """Checks networks and data by shapes, and puts the data on the device.

        Args:
          networks: One for each client, where equal ones form a cohort; a mapping by
            name, of which client i has entry i mod n; or one for all clients.
          train: Inputs and classes of each client; inputs are images (uint8), floats or
            tokens (other whole numbers).
          test: Examples of each client that `evaluate` uses.
          optimizer: Optimiser of the local steps.
          public: Examples that server and all clients know, for methods that use them.
          sampler: Sampler of the participants of a round; by default all clients.
          dropout: Probability that a trained update is lost.
          formats: Number formats of messages.
          metrics: Metrics of `sums` besides accuracy, of `metrics.metrics_by_name`.
          clients_at_once: Clients that train together: auto, one, all or a number.
          **local: Fields of `LocalTraining`, such as `epochs` and `batch_size`.

        Raises:
          UserError: Networks, data and method do not fit.
        """
        options = [f.name for f in dataclasses.fields(LocalTraining) if f.name != "opt"]
        for name in local:
            choose_from("option of local training", name, options)
        training = LocalTraining(optimizer, **local)
        sampler = sampler or participation.all_clients()
        parts = Parts(method, training, sampler, dropout)
        names_K, nets = networks_by_client(networks, len(train))
        data = join_arrays(train, test, public)
        x = jax.ShapeDtypeStruct((1, *data.x.shape[1:]), data.x.dtype)
        x = jax.eval_shape(batches.normalise_inputs, x)
        first = output_shapes(names_K[0], nets[names_K[0]], x)
        spec = Spec(first.logits.shape[-1], first.feat.shape[-1])
        check_labels(data, spec.num_classes)
        sizes = [len(rows) for rows in data.train]
        groups = group_clients(names_K, sizes)
        most = participation.max_rows_of(method, sampler, nets[names_K[0]], len(sizes))

        def cohort(name: str, ids: tuple[int, ...]) -> Cohort:
            num_rows, platform = min(most, len(ids)), jax.default_backend()
            steps = training.steps_per_round([sizes[i] for i in ids])[:num_rows]
            mode = execution.build_mode(clients_at_once, platform, steps)
            return Cohort(name, nets[name], ids, mode, num_rows)

        cohorts = tuple(cohort(*group) for group in groups.items())
        check_cohorts(method, cohorts, spec, x)
        _check_spec(method, cohorts[0], spec, x)

        def by_cohort(make, rows_K) -> tuple:
            made = (make([rows_K[i] for i in c.ids]) for c in cohorts)
            return jax.device_put(tuple(made))

        count_KC = [np.bincount(data.y[rows], minlength=spec[0]) for rows in data.train]
        self.setup = federation.Setup(
            lambda floats: parts,
            cohorts,
            formats,
            jax.device_put(batches.host_examples(data.x, data.y, data.public)),
            by_cohort(batches.tables, data.train),
            by_cohort(np.float32, count_KC),
        )
        self.tests = by_cohort(batches.tables, data.test)
        by_name = {m.name: m for m in (Metric(accuracy, name=ACCURACY), *metrics)}
        self.metrics = tuple(by_name.values())

    @property
    def num_clients(self) -> int:
        """Returns the number of clients."""
        return sum(len(cohort.ids) for cohort in self.setup.cohorts)

    def init(self, key: Array | int) -> Model:
        """Returns the model before the first round.

        Args:
          key: Key, or seed, of all randomness of the federation.
        """
        return federation.init_model(self.setup, {}, _keys(key)[:2])

    def round(
        self, key: Array | int, model: Model, r: Array | int
    ) -> tuple[Model, Report]:
        """Computes one round.

        Args:
          key: Key or seed as in `init`; the key of the round follows from it.
          r: Number of the round, from 0.

        Returns:
          The model after the round, and a report with a row for each client [K].
        """
        r = jnp.asarray(r, jnp.int32)
        key = federation.round_key(_keys(key)[2], r)
        model, reports = federation.one_round(self.setup, {}, key, model, r)
        return model, _by_client(reports, self.num_clients)

    def evaluate(self, model: Model, pooled: bool = False) -> dict[str, Array]:
        """Returns the test accuracy of every client by every prediction rule [K].

        Args:
          pooled: Returns the accuracy over the test examples of all clients [].
        """
        found = {rule: sums[ACCURACY] for rule, sums in self.sums(model).items()}
        if pooled:
            found = jax.tree.map(lambda a: a.sum(0), found)
        return {rule: right / count for rule, (right, count) in found.items()}

    def sums(self, model: Model) -> dict[str, Tree]:
        """Returns the sums of all metrics: {rule: {metric: [K, ...]}}.

        `metrics.by_client` and `metrics.pooled` make values of them on the host.
        """
        _, cohorts, formats, examples, *_ = self.setup
        method, metrics = self.setup.parts({}).method, self.metrics
        down = federation.broadcast(method, model.server, formats).message
        found = []
        for cohort, *rows in zip(cohorts, model.clients, self.tests, strict=True):
            inputs = EvaluationInputs(method, cohort, metrics, down, examples)
            found.append(evaluate_cohort(inputs, *rows))
        return gather.join_by_id([cohort.ids for cohort in cohorts], found)

    def tree_flatten(self) -> tuple[Tree, tuple]:
        """Returns the arrays, and what compiled programs depend on."""
        parts, cohorts, formats, *arrays = self.setup
        return (*arrays, self.tests), (parts, cohorts, formats, self.metrics)

    @classmethod
    def tree_unflatten(cls, static: tuple, arrays: Tree) -> "Federation":
        """Returns the federation with these arrays."""
        new = object.__new__(cls)
        (*arrays, new.tests), (*first, new.metrics) = arrays, static
        new.setup = federation.Setup(*first, *arrays)
        return new


def _keys(key: Array | int) -> Array:
    return federation.split_key(jnp.asarray(key) if is_key(key) else make_key(key))


def _by_client(reports: Sequence[Report], num_clients: int) -> Report:
    """Returns a report [K]; a client that does not take part has zeros."""
    joined = jax.tree.map(lambda *rows: jnp.concatenate(rows), *reports)
    blank = jax.tree.map(lambda a: jnp.zeros(num_clients, a.dtype), joined)
    ones = jnp.ones(num_clients, bool)
    blank = blank._replace(id=jnp.arange(num_clients), usable=ones, finite=ones)
    return gather.put_rows(blank, joined.id, joined)


def _check_spec(method: Method, cohort: Cohort, spec: Spec, x):
    """Raises UserError if a method is built for other shapes than the networks."""
    try:
        down = broadcast_shapes(method, cohort.net)
        score_shapes(method, cohort, spec, x, down)
    except (TypeError, ValueError) as e:
        raise UserError(
            f"the method does not fit network {cohort.name!r}, which has {spec}; build "
            f"the method with it ({describe_failure(e)})."
        ) from e
