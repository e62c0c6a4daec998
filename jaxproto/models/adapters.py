"""Adapters of modules in Flax NNX, Flax Linen or Equinox to entries of `NETS`.

The module is the body: it makes features [B, width] of a batch. Channel pooling to
`feat_dim` and a linear head are added, as in the library's own networks. Parameters are
dictionaries named after the module's attributes. Other state of the module (BatchNorm
statistics, counts) belongs to the client.
"""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen, nnx, traverse_util

from jaxproto.errors import UserError
from jaxproto.models.from_modules import head
from jaxproto.models.layers import Linear, draw_initial
from jaxproto.models.ops import at_least_single, channel_pool
from jaxproto.types import Array, Net, NetOutput, Tree

Factory = Callable[..., Net]  # input_shape, num_classes, feat_dim, ops=None -> Net


class PureModule(NamedTuple):
    """A module as pure functions."""

    init: Callable[[Array], tuple[Tree, Tree]]  # key -> params, norm
    apply: Callable[..., tuple[Array, Tree]]  # params, norm, x, train, key -> x, norm


def from_nnx(make: Callable[..., nnx.Module]) -> Factory:
    """Returns a network whose body is a Flax NNX module.

    Dropout draws from the step's key; without a key it is off.

    Args:
      make: `(input_shape, rngs=nnx.Rngs) -> module`, mostly the class itself; the
        module maps x [B, ...] to [B, width], and is switched by `train()` and `eval()`.
    """

    def split(module):
        graph, *states = nnx.split(module, nnx.Param, nnx.RngState, ...)
        return graph, *map(nnx.to_pure_dict, states)

    def body(input_shape):
        shapes = nnx.eval_shape(lambda: make(input_shape, rngs=nnx.Rngs(0)))
        graph, params_, streams_, norm_ = split(shapes)
        params_names, norm_names = TreeNames(params_), TreeNames(norm_)

        def init(key):
            _, params, _, norm = split(make(input_shape, rngs=nnx.Rngs(key)))
            return params_names.dictionary(params), norm_names.dictionary(norm)

        def apply(params, norm, x, train, key):
            states = params_names.tree(params), norm_names.tree(norm)
            module = nnx.merge(graph, *states, _streams(streams_, key))
            module.train() if train else module.eval()
            if key is None:
                module.set_attributes(deterministic=True, raise_if_not_found=False)
            x = module(x)
            return x, norm_names.dictionary(split(module)[3])

        return PureModule(init, apply)

    return _factory(make, body)


def _streams(like: Tree, key: Array | None) -> Tree:
    """Returns the random streams of a module, restarted from a key."""
    key = jax.random.key(0) if key is None else key
    leaves, tree = jax.tree.flatten(like)

    def begun(i, leaf):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            own = jax.random.fold_in(key, i)
            return jax.random.split(own, leaf.shape) if leaf.shape else own
        return jnp.zeros(leaf.shape, leaf.dtype)

    return jax.tree.unflatten(tree, [begun(i, a) for i, a in enumerate(leaves)])


def from_linen(module: linen.Module) -> Factory:
    """Returns a network whose body is a Flax Linen module.

    Args:
      module: maps x [B, ...] to [B, width]; if its call takes `train`, it gets
        whether this is training. Dropout draws from the stream `dropout`.
    """
    takes_train = "train" in inspect.signature(type(module).__call__).parameters

    def mode(train):
        return {"train": train} if takes_train else {}

    def body(input_shape):
        def init(key):
            keys = dict(zip(("params", "dropout"), jax.random.split(key), strict=True))
            made = module.init(keys, jnp.zeros((1, *input_shape)), **mode(False))
            return made.pop("params", {}), made

        def apply(params, norm, x, train, key):
            given = {"params": params, **norm}
            rngs = {} if key is None else {"dropout": key}
            if not train:
                return module.apply(given, x, rngs=rngs, **mode(False)), norm
            return module.apply(given, x, rngs=rngs, mutable=list(norm), **mode(True))

        return PureModule(init, apply)

    return _factory(module, body)


def from_equinox(make: Callable[..., Any]) -> Factory:
    """Returns a network whose body is an Equinox module.

    Its call is for one example, as usual in Equinox, with the batch as the axis `batch`
    (for `equinox.nn.BatchNorm`). It gets `key` if it takes one, and `state` if it takes
    one; then it returns the new state after the features.

    Args:
      make: `(input_shape, key=key) -> module`, mostly the class itself.

    Raises:
      UserError: Equinox is not installed.
    """
    try:
        import equinox as eqx
    except ImportError as e:
        raise UserError(
            f"from_equinox needs Equinox: {e}. pip install 'jaxproto[equinox]' "
            "installs it."
        ) from e

    def body(input_shape):
        kept = {}

        def arrays(key):
            model, state = eqx.nn.make_with_state(make)(input_shape, key=key)
            params, kept["static"] = eqx.partition(model, eqx.is_inexact_array)
            _check_static(filter(eqx.is_array, jax.tree.leaves(kept["static"])))
            return params, state

        params_names, norm_names = map(
            TreeNames, jax.eval_shape(arrays, jax.random.key(0))
        )

        def init(key):
            params, state = arrays(key)
            return params_names.dictionary(params), norm_names.dictionary(state)

        def apply(params, norm, x, train, key):
            model = eqx.combine(params_names.tree(params), kept["static"])
            model = eqx.nn.inference_mode(model, not train)
            x, state = _each(model, x, norm_names.tree(norm), key)
            return x, norm_names.dictionary(state)

        return PureModule(init, apply)

    return _factory(make, body)


def _each(model, x_B, state, key):
    """Applies an Equinox module to every example of a batch."""
    takes = inspect.signature(model.__call__).parameters
    keys = None
    if key is not None and "key" in takes:
        keys = jax.random.split(key, len(x_B))

    def one(x, key):
        more = {} if key is None else {"key": key}
        if "state" in takes:
            return model(x, state, **more)
        return model(x, **more), state

    return jax.vmap(one, out_axes=(0, None), axis_name="batch")(x_B, keys)


def _check_static(arrays):
    for a in arrays:
        raise UserError(
            f"an Equinox module has an array of {a.dtype} {list(a.shape)} that is no "
            "parameter: keep whole numbers as Python's or NumPy's in a static field, "
            "or in its state."
        )


class TreeNames:
    """A tree of arrays as nested dictionaries of texts, and back."""

    def __init__(self, like: Tree):
        leaves, self.structure = jax.tree_util.tree_flatten_with_path(like)
        self.dtypes = [leaf.dtype for _, leaf in leaves]
        self.paths = [
            tuple(jax.tree_util.keystr((k,), simple=True) for k in path)
            for path, _ in leaves
        ]

    def dictionary(self, tree: Tree) -> dict:
        """Converts a tree to dictionaries by names of attributes and entries."""
        leaves = zip(jax.tree.leaves(tree), self.dtypes, strict=True)
        strong = [jax.lax.convert_element_type(a, dtype) for a, dtype in leaves]
        return traverse_util.unflatten_dict(dict(zip(self.paths, strong, strict=True)))

    def tree(self, dictionary: dict) -> Tree:
        """Converts dictionaries back to the tree."""
        found = traverse_util.flatten_dict(dictionary)
        return jax.tree.unflatten(self.structure, [found[path] for path in self.paths])


def _factory(given, body: Callable[[tuple[int, ...]], PureModule]) -> Factory:
    """Returns the factory of a `Net`, with the module and name of `given`."""

    def network(input_shape, num_classes, feat_dim, ops=None) -> Net:
        return _with_head(body(input_shape), num_classes, feat_dim)

    made_in = getattr(given, "__module__", None) or ""
    network.__module__ = made_in
    network.__doc__ = getattr(given, "__doc__", None)
    return network


def _with_head(body: PureModule, num_classes: int, feat_dim: int) -> Net:
    """Adds channel pooling and a linear head to a body."""

    def init(key):
        body_key, head_key = jax.random.split(key)
        params, norm = body.init(body_key)
        drawn = draw_initial(
            head_key, {"uniform": (feat_dim + 1) * num_classes, "normal": 0}
        )
        made = Linear(feat_dim, num_classes, drawn)
        return {"body": params, "head": nnx.to_pure_dict(nnx.state(made))}, norm

    def apply(params, norm, x, train, key=None):
        x, new = body.apply(params["body"], norm, x, train, key)
        if x.ndim != 2:
            raise UserError(
                f"the module makes features of shape {x.shape[1:]} of an example; "
                "flatten or average them to one axis."
            )
        feat = channel_pool(at_least_single(x), feat_dim)
        return NetOutput(feat, head(params["head"], feat), new if train else norm)

    return Net(init, apply, head)
