"""Attacks of hostile clients as a wrapper of any method.

A hostile client trains as all others and changes what it sends; with `label_flip` it
trains with wrong labels. An attack is part of the method, so that nodes apply it to
their own uploads. docs/how_to/robustness.md has a line for each kind.

`alie` is by Baruch et al.: A Little Is Enough, NeurIPS 2019. Its clients know the
uploads of the others. So the server computes what they send; one bit of each message
marks them.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto.core.hyperparameters import Real
from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method
from jaxproto.core.types import (
    Array,
    ArrayLike,
    Batch,
    Client,
    Data,
    Examples,
    Protos,
    Tree,
)
from jaxproto.errors import UserError
from jaxproto.features.robustness.registry import ATTACKS
from jaxproto.features.robustness.robust_aggregation import arrived

NOISE = 5  # stream of the key of a release


class Attack(NamedTuple):
    """Kind and strength of an attack, and the clients that make it."""

    kind: str  # one of `ATTACKS`
    hostile: Callable[[ArrayLike], ArrayLike]  # client ids -> whether they are hostile
    strength: Real = 1.0


def attacked(method: Method, attack: Attack) -> Method:
    """Returns a method with hostile clients, whose own results do not count."""
    method = ATTACKS[attack.kind](method, attack)
    return dataclasses.replace(method, scored=lambda id_K: ~attack.hostile(id_K))


def flip_labels(method: Method, attack: Attack) -> Method:
    """Returns a method whose hostile clients have class C - 1 - j in place of j."""

    def with_flipped(f):
        def flipped(*args):
            client = next(a for a in args if isinstance(a, Client))
            hostile, last = attack.hostile(client.id), len(client.count) - 1

            def flip(a):
                if isinstance(a, Client):
                    return a.replace(count=jnp.where(hostile, a.count[::-1], a.count))
                if isinstance(a, Data):
                    return a._replace(examples=flip(a.examples))
                if isinstance(a, Examples):
                    return a.replace(y=jnp.where(hostile, last - a.y, a.y))
                if isinstance(a, Batch):
                    return a._replace(y=jnp.where(hostile, last - a.y, a.y))
                return a

            return f(*map(flip, args))

        return flipped

    functions = {"loss": method.loss, "upload": method.upload}
    if method.release is not None:
        functions["release"] = method.release
    if method.two_exchanges:
        functions["pre_upload"] = method.pre_upload
    wrapped = {name: with_flipped(f) for name, f in functions.items()}
    return dataclasses.replace(method, **wrapped)


def change_uploads(method: Method, attack: Attack) -> Method:
    """Returns a method whose hostile clients change messages after clipping and noise.

    Raises:
      UserError: when the functions of the method are traced, if the attack changes no
        value of a message.
    """

    def upload(net, before, after, data, down, sums):
        up, memory = method.upload(net, before, after, data, down, sums)
        sums = jax.tree.map(jnp.zeros_like, sums)
        untrained, _ = method.upload(net, before, before, data, down, sums)
        return (up, untrained), memory

    def release(net, after, data, up, down, key):
        up, untrained = (up, None) if attack.kind in OF_PROTOS else up
        if method.release is not None:
            up = method.release(net, after, data, up, down, key)
        key = jax.random.fold_in(key, NOISE)
        return sent(after, up, up if untrained is None else untrained, key)

    def pre_upload(net, client, data, down):
        message = method.pre_upload(net, client, data, down)
        key = jax.random.fold_in(make_key(NOISE), client.id)
        return sent(client, message, message, key)

    def sent(client, up, untrained, key):
        new = changed(attack, up, untrained, key)
        pairs = zip(jax.tree.leaves(new), jax.tree.leaves(up), strict=True)
        if not method.two_exchanges and all(a is b for a, b in pairs):
            raise UserError(
                f"attack.kind is {attack.kind!r}, but {method.name} sends nothing that "
                "it changes; take another kind or another method."
            )
        hostile = attack.hostile(client.id)
        return jax.tree.map(lambda a, b: jnp.where(hostile, a, b), new, up)

    functions: dict = {"release": release}
    if attack.kind not in OF_PROTOS:
        functions["upload"] = upload
    if method.two_exchanges:
        functions["pre_upload"] = pre_upload
    return dataclasses.replace(method, **functions)


def changed(attack: Attack, up: Tree, untrained: Tree, key: Array) -> Tree:
    """Returns the upload that a hostile client sends instead of `up`.

    Args:
      untrained: Upload of the client if it had not trained.
    """
    nodes, structure = jax.tree.flatten(up, is_leaf=_is_protos)
    olds, s = jax.tree.leaves(untrained, is_leaf=_is_protos), attack.strength
    change_protos = OF_PROTOS.get(attack.kind)
    for i, (node, old) in enumerate(zip(nodes, olds, strict=True)):
        node_key = jax.random.fold_in(key, i)
        if _is_protos(node) and change_protos:
            nodes[i] = change_protos(node, s)
        elif _is_protos(node):
            zero = jnp.zeros_like(node.mean)
            mean = OF_VALUES[attack.kind](node.mean, zero, s, node_key)
            nodes[i] = node.replace(mean=mean)
        elif not change_protos and jnp.issubdtype(node.dtype, jnp.floating):
            nodes[i] = OF_VALUES[attack.kind](node, old, s, node_key)
    return jax.tree.unflatten(structure, nodes)


def _is_protos(node) -> bool:
    return isinstance(node, Protos)


def noisy(x: Array, old: Array, s: Real, key: Array) -> Array:
    """Adds noise of s times the root mean square of each row's change `x - old`."""
    axis = -1 if x.ndim > 1 else None
    rms = jnp.sqrt(jnp.mean((x - old) ** 2, axis=axis, keepdims=True))
    return x + s * rms * jax.random.normal(key, x.shape)


def roll(protos: Protos, s: Real) -> Protos:
    """Gives every class s times the prototype, and the count, of the class before."""
    mean_CD, count_C = jnp.roll(protos.mean, 1, 0), jnp.roll(protos.count, 1)
    return protos.replace(mean=s * mean_CD, count=count_C)


def magnet(protos: Protos, s: Real) -> Protos:
    """Gives every class s times the mean of the client's own prototypes."""
    present_C = (protos.count > 0).astype(protos.mean.dtype)
    point_D = present_C @ protos.mean / jnp.maximum(jnp.sum(present_C), 1.0)
    mean_CD = jnp.broadcast_to(s * point_D, protos.mean.shape)
    count_C = jnp.full_like(protos.count, jnp.max(protos.count))
    return protos.replace(mean=mean_CD, count=count_C)


OF_VALUES: dict[str, Callable] = {  # x, old, s, key -> x that is sent
    "sign_flip": lambda x, old, s, key: old - s * (x - old),
    "scale": lambda x, old, s, key: old + 10 * s * (x - old),
    "noise": noisy,
    "nan": lambda x, old, s, key: jnp.full_like(x, jnp.nan),
}
OF_PROTOS: dict[str, Callable] = {"prototype_roll": roll, "prototype_magnet": magnet}


def collude(method: Method, attack: Attack) -> Method:
    """Returns a method whose server replaces hostile uploads by `deviated` ones."""

    def release(net, after, data, up, down, key):
        if method.release is not None:
            up = method.release(net, after, data, up, down, key)
        return up, jnp.asarray(attack.hostile(after.id))

    def finish(net, server, marked, key):
        up = deviated(*marked, attack.strength)
        return method.aggregation(net, server, up, key)

    update = dataclasses.replace(method.aggregation, finish=finish, summand=None)
    return dataclasses.replace(method, release=release, update=update)


def deviated(up: Tree, hostile_K: Array, s: Real) -> Tree:
    """Replaces values of hostile clients by mean - s std over the uploads [K, ...]."""
    arrived_K = arrived(up)

    def deviated_values(x, sent):
        number = jnp.maximum(jnp.sum(sent, 0), 1)
        mean = jnp.sum(x, 0, where=sent) / number
        std = jnp.sqrt(jnp.sum((x - mean) ** 2, 0, where=sent) / number)
        hostile = hostile_K.reshape(-1, *[1] * (x.ndim - 1))
        return jnp.where(hostile & sent, mean - s * std, x)

    def deviated_node(node):
        if _is_protos(node):
            sent_KC1 = (arrived_K[:, None] & (node.count > 0))[..., None]
            return node.replace(mean=deviated_values(node.mean, sent_KC1))
        if not jnp.issubdtype(node.dtype, jnp.floating):
            return node
        return deviated_values(node, arrived_K.reshape(-1, *[1] * (node.ndim - 1)))

    return jax.tree.map(deviated_node, up, is_leaf=_is_protos)
