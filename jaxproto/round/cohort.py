"""Cohorts: clients that share an architecture, and checks of their networks."""

import dataclasses
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method
from jaxproto.core.types import Client, Net, NetOutput, Spec, Tree, kind_of
from jaxproto.errors import UserError, describe_failure
from jaxproto.round.execution import ExecutionMode, one_by_one
from jaxproto.round.kept_state import STATEFUL, KeptState
from jaxproto.wire import for_client


@dataclasses.dataclass(frozen=True)
class Cohort:
    """Clients that share an architecture."""

    name: str
    net: Net
    ids: tuple[int, ...]
    mode: ExecutionMode = dataclasses.field(default_factory=one_by_one)
    max_participants: int = 0  # participants of a round at most; 0 is all
    kept_state: KeptState = STATEFUL  # what its clients keep between rounds

    @property
    def num_rows(self) -> int:
        """Returns the maximum number of participants of a round."""
        return min(len(self.ids), self.max_participants) or len(self.ids)

    @property
    def sampled(self) -> bool:
        """Returns whether a round has only a part of the clients."""
        return self.num_rows < len(self.ids)


def networks_by_client(
    networks: Net | Sequence[Net] | Mapping[str, Net], clients: int
) -> tuple[list[str], dict[str, Net]]:
    """Returns the name of each client's network, and the networks by name.

    Args:
      networks: One for each client, where equal ones form a cohort; a mapping by name,
        of which client i has entry i mod n; or one for all.
      clients: Number of clients.

    Raises:
      UserError: Networks are missing, or something else.
    """
    if isinstance(networks, Net) or callable(networks):
        networks = {"net": networks}
    if isinstance(networks, Mapping):
        nets, names = dict(networks), [*networks]
    else:
        listed = [*networks]
        distinct = [net for i, net in enumerate(listed) if listed.index(net) == i]
        nets = {f"network_{i}": net for i, net in enumerate(distinct)}
        names = [f"network_{distinct.index(net)}" for net in listed]
    if not names or (len(names) != clients and not isinstance(networks, Mapping)):
        raise UserError(
            f"there are {len(names)} networks, but train has {clients} clients; give "
            "a network for each client, or one for all."
        )
    names_K = [names[i % len(names)] for i in range(clients)]
    for name, net in nets.items():
        if not isinstance(net, Net):
            raise UserError(
                f"{name!r} is {kind_of(net)}, not a Net; call a factory, such as "
                "models.mlp.mlp(input_shape=(64,), num_classes=10, feat_dim=16)."
            )
    return names_K, nets


def group_clients(
    names_K: Sequence[str], sizes_K: Sequence[int]
) -> dict[str, tuple[int, ...]]:
    """Returns the client ids of each network, in the order of the first client of each.

    Clients with more examples come first: `execution.plan_segments` relies on it.

    Args:
      names_K: Name of the network of each client.
      sizes_K: Number of training examples of each client.
    """
    groups: dict[str, tuple[int, ...]] = dict.fromkeys(names_K, ())
    for i in sorted(range(len(sizes_K)), key=lambda i: -sizes_K[i]):
        groups[names_K[i]] += (i,)
    return groups


def check_cohorts(method: Method, cohorts: Sequence[Cohort], spec: Spec, x):
    """Raises UserError before training if method and cohorts do not fit.

    Args:
      x: Shape of one batch of inputs, as a ShapeDtypeStruct.
    """
    _check_architectures(method, cohorts)
    method.check_input(x)
    for cohort in cohorts:
        _check_features(cohort, spec, x)
    key, down = jax.eval_shape(make_key, 0), broadcast_shapes(method, cohorts[0].net)
    for cohort in cohorts:
        params = jax.eval_shape(partial(method.init_client, cohort.net), key)[0]
        _check_received(cohort, params, jax.eval_shape(method.receive, params, down))


def score_shapes(
    method: Method, cohort: Cohort, spec: Spec, x, down: Tree
) -> dict[str, Any]:
    """Returns the shapes of a new client's scores by every prediction rule.

    Args:
      x: Shape of one batch of inputs, as a ShapeDtypeStruct.
      down: Result of `broadcast_shapes`.
    """

    def scores(key, x, down):
        params, norm, memory = method.init_client(cohort.net, key)
        count_C, zero = jnp.zeros(spec.num_classes), jnp.zeros((), jnp.int32)
        client = Client(params, norm, (), memory, count_C, zero, zero)
        return method.predict(cohort.net, client, x, down)

    return jax.eval_shape(scores, jax.eval_shape(make_key, 0), x, down)


def broadcast_shapes(method: Method, net: Net) -> Tree:
    """Returns the shapes of what a client receives of the first broadcast."""
    server = jax.eval_shape(
        partial(method.init_server, net), jax.eval_shape(make_key, 0)
    )
    return jax.eval_shape(lambda a: for_client(method.broadcast(a), 0), server)


def output_shapes(name: str, net: Net, x) -> NetOutput:
    """Returns the shapes of a network's output for a batch.

    Raises:
      UserError: The network does not take such inputs.
    """
    params, norm = jax.eval_shape(net.init, jax.eval_shape(make_key, 0))
    try:
        return jax.eval_shape(lambda *a: net.apply(*a, False), params, norm, x)
    except (TypeError, ValueError) as e:
        why = describe_failure(e).rstrip(".")
        raise UserError(
            f"network {name!r} fails for inputs of shape {x.shape[1:]}: {why}."
        ) from e


def _check_architectures(method: Method, cohorts: Sequence[Cohort]):
    if method.homogeneous and len(cohorts) > 1:
        names = [cohort.name for cohort in cohorts]
        raise UserError(
            f"{method.name} averages networks, so all clients need one architecture, "
            f"but there are {len(names)}: {', '.join(names)}. Choose one, such as "
            f"{names[0]}, or a method for several architectures."
        )


def _check_features(cohort: Cohort, spec: Spec, x):
    out = output_shapes(cohort.name, cohort.net, x)
    for what, dim, required in [
        ("feature dimension", out.feat.shape[-1], spec.feat_dim),
        ("number of classes", out.logits.shape[-1], spec.num_classes),
    ]:
        if dim != required:
            raise UserError(
                f"network {cohort.name!r} has {what} {dim}, but the federation has "
                f"{required}: prototypes of all cohorts must have one shape. Build it "
                f"with {what} {required} or leave it out of the group."
            )


def _check_received(cohort: Cohort, before: Tree, after: Tree):
    trees = [dict(jax.tree_util.tree_leaves_with_path(t)) for t in (before, after)]
    for path in {**trees[0], **trees[1]}:
        a, b = (getattr(tree.get(path), "shape", "nothing") for tree in trees)
        if a != b:
            raise UserError(
                f"cohort {cohort.name!r}: the broadcast would turn "
                f"{jax.tree_util.keystr(path)} from {a} into {b}. A method that "
                "shares this part needs clients of one architecture."
            )
