"""Adapters of modules in Flax NNX, Flax Linen or Equinox to entries of `NETS`.

The module is the body: it maps a batch to features [B, width]. Channel pooling to
`feat_dim` and a linear head are added, as in the library's own networks. Parameters are
nested dictionaries whose keys are the module's attributes. Other state of the module
(BatchNorm statistics, counts) belongs to the client.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import linen, nnx, traverse_util

from jaxproto.core.jax_settings import make_key
from jaxproto.core.types import Array, Net, NetOutput, Tree, describe, kind_of
from jaxproto.errors import UserError
from jaxproto.models.from_modules import head
from jaxproto.models.layers import Linear, draw_initial
from jaxproto.models.ops import at_least_single, channel_pool

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
        """Returns the graph, parameters, random streams and other state."""
        graph, *states = nnx.split(module, nnx.Param, nnx.RngState, ...)
        return graph, *map(nnx.to_pure_dict, states)

    def body(input_shape):
        shapes = nnx.eval_shape(lambda: make(input_shape, rngs=nnx.Rngs(0)))
        graph, param_shapes, stream_shapes, norm_shapes = split(shapes)
        params_names, norm_names = TreeNames(param_shapes), TreeNames(norm_shapes)

        def init(key):
            _, params, _, norm = split(make(input_shape, rngs=nnx.Rngs(key)))
            return params_names.dictionary(params), norm_names.dictionary(norm)

        def apply(params, norm, x, train, key):
            states = params_names.tree(params), norm_names.tree(norm)
            module = nnx.merge(graph, *states, _streams(stream_shapes, key))
            module.train() if train else module.eval()
            if key is None:
                module.set_attributes(deterministic=True, raise_if_not_found=False)
            x = module(x)
            return x, norm_names.dictionary(split(module)[3])

        return PureModule(init, apply)

    return _factory(make, body)


def _streams(shapes: Tree, key: Array | None) -> Tree:
    """Returns random streams of the given shapes, restarted from a key."""
    key = make_key(0) if key is None else key
    leaves, structure = jax.tree.flatten(shapes)

    def restart(i, leaf):
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            new = jax.random.fold_in(key, i)
            return jax.random.split(new, leaf.shape) if leaf.shape else new
        return jnp.zeros(leaf.shape, leaf.dtype)

    return jax.tree.unflatten(structure, [restart(i, a) for i, a in enumerate(leaves)])


def from_linen(module: linen.Module) -> Factory:
    """Returns a network whose body is a Flax Linen module.

    Args:
      module: maps x [B, ...] to [B, width]; an argument `train` of its call is True
        in training. Dropout draws from the stream `dropout`.
    """
    takes_train = "train" in inspect.signature(type(module).__call__).parameters

    def mode(train):
        return {"train": train} if takes_train else {}

    def body(input_shape):
        def init(key):
            keys = dict(zip(("params", "dropout"), jax.random.split(key), strict=True))
            x = jnp.zeros((1, *input_shape))
            variables = module.init(keys, x, **mode(False))
            return variables.pop("params", {}), variables

        def apply(params, norm, x, train, key):
            variables = {"params": params, **norm}
            rngs = {} if key is None else {"dropout": key}
            if not train:
                return module.apply(variables, x, rngs=rngs, **mode(False)), norm
            mutable = list(norm)
            return module.apply(variables, x, rngs=rngs, mutable=mutable, **mode(True))

        return PureModule(init, apply)

    return _factory(module, body)


def from_equinox(make: Callable[..., Any]) -> Factory:
    """Returns a network whose body is an Equinox module.

    The module is called on one example, as usual in Equinox; the batch is the vmapped
    axis `batch` (for `equinox.nn.BatchNorm`). The call gets `key` and `state` if it has
    such arguments. With `state` it returns the features and the new state.

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
            for a in filter(eqx.is_array, jax.tree.leaves(kept["static"])):
                raise UserError(
                    f"an Equinox module has an array of {a.dtype} {list(a.shape)} that "
                    "is no parameter: keep whole numbers as Python's or NumPy's in a "
                    "static field, or in its state."
                )
            return params, state

        params_names, norm_names = map(TreeNames, jax.eval_shape(arrays, make_key(0)))

        def init(key):
            params, state = arrays(key)
            return params_names.dictionary(params), norm_names.dictionary(state)

        def apply(params, norm, x, train, key):
            model = eqx.combine(params_names.tree(params), kept["static"])
            model = eqx.nn.inference_mode(model, not train)
            x, state = _apply_per_example(model, x, norm_names.tree(norm), key)
            return x, norm_names.dictionary(state)

        return PureModule(init, apply)

    return _factory(make, body)


def _apply_per_example(model, x_B, state, key):
    """Applies an Equinox module to every example of a batch."""
    arguments = inspect.signature(model.__call__).parameters
    keys = None
    if key is not None and "key" in arguments:
        keys = jax.random.split(key, len(x_B))

    def apply(x, key):
        options = {} if key is None else {"key": key}
        if "state" in arguments:
            return model(x, state, **options)
        return model(x, **options), state

    return jax.vmap(apply, out_axes=(0, None), axis_name="batch")(x_B, keys)


class TreeNames:
    """Conversion of a tree of arrays to nested dictionaries with string keys, and back.

    Args:
      example: Tree of arrays or of their shapes and dtypes.
    """

    def __init__(self, example: Tree):
        leaves, self.structure = jax.tree_util.tree_flatten_with_path(example)
        self.dtypes = [leaf.dtype for _, leaf in leaves]
        self.paths = [
            tuple(jax.tree_util.keystr((k,), simple=True) for k in path)
            for path, _ in leaves
        ]

    def dictionary(self, tree: Tree) -> dict:
        """Converts a tree to dictionaries by names of attributes and entries."""
        leaves = zip(jax.tree.leaves(tree), self.dtypes, strict=True)
        typed = [jax.lax.convert_element_type(a, dtype) for a, dtype in leaves]
        return traverse_util.unflatten_dict(dict(zip(self.paths, typed, strict=True)))

    def tree(self, dictionary: dict) -> Tree:
        """Converts dictionaries back to the tree."""
        leaves = traverse_util.flatten_dict(dictionary)
        return jax.tree.unflatten(self.structure, [leaves[path] for path in self.paths])


def _factory(source, body: Callable[[tuple[int, ...]], PureModule]) -> Factory:
    """Returns the factory of a `Net`, with module, docstring and place of `source`."""

    def network(input_shape, num_classes, feat_dim, ops=None) -> Net:
        module = body(input_shape)
        return _with_head(_with_checked_output(name, module), num_classes, feat_dim)

    source = source if hasattr(source, "__name__") else type(source)
    name = source.__name__
    network.__signature__ = inspect.signature(network)  # type: ignore[attr-defined]
    origin = "__module__", "__doc__"
    return functools.update_wrapper(network, source, assigned=origin, updated=())


def _with_checked_output(name: str, module: PureModule) -> PureModule:
    """Returns the module `name`, which must return one array."""

    def apply(*args):
        x, norm = module.apply(*args)
        if not isinstance(x, jax.Array):
            raise UserError(
                f"the module {name} returns {kind_of(x)}; it must return one array of "
                "features [B, width]."
            )
        return x, norm

    return module._replace(apply=apply)


def _with_head(body: PureModule, num_classes: int, feat_dim: int) -> Net:
    """Adds channel pooling and a linear head to a body."""

    def init(key):
        body_key, head_key = jax.random.split(key)
        params, norm = body.init(body_key)
        sizes = {"uniform": (feat_dim + 1) * num_classes, "normal": 0}
        linear = Linear(feat_dim, num_classes, draw_initial(head_key, sizes))
        return {"body": params, "head": nnx.to_pure_dict(nnx.state(linear))}, norm

    def apply(params, norm, x, train, key=None):
        x, new_norm = body.apply(params["body"], norm, x, train, key)
        if x.ndim != 2:
            raise UserError(
                f"the module makes features of shape {x.shape[1:]} of an example; "
                "flatten or average them to one axis."
            )
        if not jnp.issubdtype(x.dtype, jnp.floating):
            raise TypeError(
                f"the module makes features {describe(x)}; they must be floats, as no "
                "gradient passes whole numbers"
            )
        feat = channel_pool(at_least_single(x), feat_dim)
        return NetOutput(feat, head(params["head"], feat), new_norm if train else norm)

    return Net(init, apply, head)
