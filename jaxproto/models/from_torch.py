"""Conversion of PyTorch weights: a rename and a transposition per array.

A network's modules are named as in torchvision and the released code. `kernel` and
`scale` become `weight`; the statistics become `running_mean` and `running_var`. PyTorch
names of the body may start with `base.`; those of the head start with `head`,
`heads.head`, `fc` or `classifier`, followed by `.1` where a dropout comes first.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from jaxproto.core.jax_settings import make_key
from jaxproto.core.types import Array, Net, Tree
from jaxproto.errors import UserError
from jaxproto.models.construction import build
from jaxproto.models.registry import NETS
from jaxproto.origin import is_external

Weights = Mapping[str, np.ndarray]  # PyTorch's names and shapes
Head = Callable[[Net, dict], dict]  # net, entries -> entries with the wanted head

LAST = {"kernel": "weight", "scale": "weight", "table": "weight"}
LAST |= {"mean": "running_mean", "var": "running_var"}
# axes of an array here in PyTorch's order, by the number of axes
AXES = {4: (3, 2, 0, 1), 3: (2, 1, 0), 2: (1, 0), 1: (0,)}
AS_IN_TORCH = {"table", "class_token", "pos_embedding"}  # arrays with PyTorch's axes
HEADS = r"(?:head|heads\.head|fc|classifier)(?:\.fc|\.1)?"
HEAD = re.compile(HEADS + r"((?:\.\d+)?\.(?:weight|bias))")
COUNTER = "num_batches_tracked"  # PyTorch counts batches; nothing here uses it


def given_head(net: Net, entries: dict) -> dict:
    """Returns the entries as they are: the head is that of the weights."""
    return entries


def fresh_head(key: Array) -> Head:
    """Returns a function that replaces the head by a new one, drawn by `init(key)`.

    It serves a pretrained body whose own classifier has other classes or features.
    """

    def replace(net, entries):
        new = jax.jit(lambda key: net.init(key)[0]["head"])(key)
        body = {k: v for k, v in entries.items() if not HEAD.fullmatch(k)}
        return body | torch_entries({"head": new})

    return replace


def from_torch(
    name: str,
    weights: Weights | str | Path,
    *,
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    vocab_size: int | None = None,
    head: Head = given_head,
) -> tuple[Tree, Tree]:
    """Converts PyTorch's `state_dict` to parameters and statistics of a network.

    Args:
      name: A key of NETS.
      weights: A mapping from names to arrays or tensors, or the path of a `.npz` or
        `.safetensors` file.
      input_shape, num_classes, feat_dim: As in `build`.
      vocab_size: As in `build`. Unknown words are token 1 here, with a row of its own;
        in the released code they are token 0, as padding.
      head: `given_head`, or `fresh_head(key)` where only the body is wanted.

    Returns:
      Parameters and statistics in the form that `Net.init` returns.

    Raises:
      UserError: Lists every missing, unknown and wrongly shaped entry.
    """
    net = build(
        name,
        input_shape=input_shape,
        num_classes=num_classes,
        feat_dim=feat_dim,
        vocab_size=vocab_size,
    )
    trees = jax.eval_shape(net.init, make_key(0))
    entries = head(net, canonical(read(weights)))
    wanted = [jax.eval_shape(torch_entries, tree).items() for tree in trees]
    check(name, {k: v.shape for items in wanted for k, v in items}, entries)

    def fill(path, leaf):
        value = entries[entry_name(path)]
        return jnp.asarray(value.transpose(np.argsort(torch_axes(path, leaf))))

    return tuple(jax.tree_util.tree_map_with_path(fill, tree) for tree in trees)


def to_torch(params: Tree, norm: Tree) -> dict[str, np.ndarray]:
    """Converts parameters and statistics to PyTorch's names and layout.

    Names start with `base.` or `head.`. PyTorch's `load_state_dict` takes the arrays
    once they are tensors.
    """
    entries = torch_entries(params) | torch_entries(norm)
    return {
        k if HEAD.fullmatch(k) else f"base.{k}": np.asarray(v)
        for k, v in entries.items()
    }


def is_mapped(name: str) -> bool:
    """Returns whether a network is one of this package, with a PyTorch counterpart."""
    return not is_external(NETS.get(name))


def torch_entries(tree: Tree) -> dict:
    """Returns arrays by PyTorch's names, without `base.`, and in PyTorch's layout."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    return {entry_name(path): a.transpose(torch_axes(path, a)) for path, a in leaves}


def entry_name(path) -> str:
    """Returns PyTorch's name of the leaf at `path`."""
    part, *middle, last = (key.key for key in path)
    start = ["head"] if part == "head" else []
    return ".".join([*start, *middle, LAST.get(last, last)])


def torch_axes(path, leaf) -> tuple[int, ...]:
    """Returns the axes of a leaf in PyTorch's order."""
    unchanged = path[-1].key in AS_IN_TORCH
    return tuple(range(leaf.ndim)) if unchanged else AXES[leaf.ndim]


def read(weights: Weights | str | Path) -> Weights:
    """Returns a mapping of weights; reads it if `weights` is the path of a file.

    Raises:
      UserError: There is no such file, it is of another format, or not readable.
    """
    if isinstance(weights, Mapping):
        return weights
    path = Path(weights)
    if path.suffix not in (".npz", ".safetensors"):
        raise UserError(
            f"weights file {path} is neither .npz nor .safetensors. Open it in PyTorch "
            "and pass the state_dict itself, or save that with safetensors."
        )
    if not path.is_file():
        raise UserError(f"there is no weights file {path}.")
    try:
        if path.suffix == ".safetensors":
            return safetensors.numpy.load_file(path)
        with np.load(path) as file:
            return dict(file)
    except Exception as e:  # of NumPy, safetensors or the file system
        raise UserError(f"weights file {path} cannot be read: {e}") from e


def canonical(weights: Weights) -> dict:
    """Renames arrays as `torch_entries` does, without batch counters.

    Raises:
      UserError: Two entries get the same name, or an entry is no array.
    """
    entries: dict[str, np.ndarray] = {}
    original: dict[str, str] = {}  # new name -> name in `weights`
    for name, value in weights.items():
        short = name.removeprefix("base.")
        match = HEAD.fullmatch(short)
        short = f"head{match[1]}" if match else short
        if short in entries:
            raise UserError(
                f"entries {original[short]!r} and {name!r} of the weights mean the "
                "same array. Remove one."
            )
        if short.rpartition(".")[2] != COUNTER:
            entries[short], original[short] = as_array(name, value), name
    return entries


def check(name: str, wanted: dict[str, tuple], entries: dict) -> None:
    """Compares names and shapes of the entries with the wanted ones.

    Raises:
      UserError: Lists every missing, unknown and wrongly shaped entry.
    """
    given = {k: v.shape for k, v in entries.items()}
    lines = [f"missing {k}: {v}" for k, v in wanted.items() if k not in given]
    lines += [f"unknown {k}: {v}" for k, v in given.items() if k not in wanted]
    lines += [
        f"wrong shape of {k}: given {given[k]}, wanted {v}"
        for k, v in wanted.items()
        if k in given and given[k] != v
    ]
    if not lines:
        return
    hint = ""
    if all("head." in line for line in lines):
        hint = "\nTo keep the body only, pass head=fresh_head(key)."
    listed = "\n  ".join(lines)
    raise UserError(f"the weights do not fit network {name!r}:\n  {listed}{hint}")


def as_array(name: str, value) -> np.ndarray:
    """Converts an array or a PyTorch tensor to float32, without importing PyTorch.

    Raises:
      UserError: The value is neither.
    """
    if hasattr(value, "detach"):
        value = value.detach().cpu().float()
    try:
        return np.asarray(value, np.float32)
    except (TypeError, ValueError) as e:
        kind = type(value).__name__
        raise UserError(f"entry {name!r} of the weights is no array: {kind}.") from e
