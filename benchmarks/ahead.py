"""Programs of a run, to compile for accelerators that this machine does not have.

Nothing is executed and no data are read. Sizes are those of CIFAR-10 (Ht0, HmCNN) and
AG News (text), with 20 clients, ProtoNorm and the papers' batch of 32.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from benchmarks import synthetic
from jaxproto import config as config_
from jaxproto import models
from jaxproto.core import batches
from jaxproto.core.jax_settings import make_key
from jaxproto.core.types import Examples, Net, Tree
from jaxproto.data import registry
from jaxproto.data.dataset import Dataset
from jaxproto.errors import choose_from
from jaxproto.experiment import build
from jaxproto.experiment import cohorts as cohorts_
from jaxproto.experiment.build import Experiment
from jaxproto.models.ops import Ops, ops
from jaxproto.round import execution
from jaxproto.training import compiler, programs

CLIENTS, BATCH, DIM = 20, 32, 512
AXIS = "clients"  # axis of the mesh
OPS = {"lax": ops.LAX, "cpu": ops.CPU, "tpu": ops.TPU, "gpu": ops.GPU}
# positions of the arguments with a row for each client (states, examples); of uploads
OWN = {"train": (2, 4), "evaluate": (2, 4), "pre_upload": (2, 4)}
UPLOADS = {"update": 3, "pre_aggregate": 3}


class Form(NamedTuple):
    """Execution of clients (a value of `clients_at_once`), and their operations."""

    name: str
    mode: str
    ops: Ops


class Traced(NamedTuple):
    """A traced program, which is not lowered or compiled yet."""

    name: str
    out: Tree  # shapes of its results
    stage: jax.stages.Traced


def form(text: str) -> Form:
    """Parses the name of a form, such as `all:lax`."""
    mode, _, kind = text.partition(":")
    return Form(text, mode, OPS[choose_from("operations", kind, OPS)])


def images() -> Dataset:
    """Makes a data set with the shapes of CIFAR-10."""
    x, y = np.zeros((60_000, 32, 32, 3), np.uint8), np.arange(60_000) % 10
    return Dataset("shapes", x, y.astype(np.int32), 10, 50_000)


def texts() -> Dataset:
    """Makes a data set with the shapes of AG News: 200 tokens out of 32,000."""
    x, y = np.zeros((127_600, 200), np.int32), np.arange(127_600) % 4
    words = tuple(map(str, range(32_000)))
    return Dataset("shapes", x, y.astype(np.int32), 4, 120_000, tokens=words)


GROUPS: dict[str, Callable[[], Dataset]] = {"Ht0": images, "HmCNN": images}
GROUPS["text"] = texts
NETWORKS = tuple(name for group in GROUPS for name in models.GROUPS[group])


def groups(networks: Sequence[str]) -> list[str]:
    """Returns the groups that contain one of these networks."""
    chosen = {choose_from("network", name, NETWORKS) for name in networks}
    return [group for group in GROUPS if chosen & {*models.GROUPS[group]}]


def rows(group: str, chips: int) -> int:
    """Returns the clients of one architecture, rounded up to a multiple of the chips.

    Several chips divide the rows of a cohort. Rows beyond the share of 20 clients stand
    for padding, which takes no step.
    """
    share = CLIENTS // len(models.GROUPS[group])
    return -(-share // chips) * chips


def at_once(group: str, mode: str) -> int:
    """Returns how many clients of one architecture train in step."""
    return {"one": 1, "all": rows(group, 1)}.get(mode) or int(mode)


def federation(group: str, how: Form, dtype: str, chips: int = 1) -> Experiment:
    """Builds the federation of a group; every chip runs its rows in the form `how`."""
    num_rows, names = rows(group, chips), models.GROUPS[group]
    fields = {
        "data.name": "shapes",
        "data.clients": num_rows * len(names),
        "data.partition": "iid",
        "model.group": group,
        "model.feat_dim": DIM,
        "model.compute_dtype": dtype,
        "local.batch_size": BATCH,
        "clients_at_once": how.mode,
    }
    settings = synthetic.plain("protonorm", fields)
    config_.check(settings)
    dataset = GROUPS[group]()
    with mock.patch.dict(registry.DATASETS, {"shapes": lambda seed: dataset}):
        exp = build.experiment(settings, "cpu")._replace(cores=1)
    steps = cohorts_.steps_per_round(exp.partition, range(num_rows // chips), exp.local)
    mode = execution.build_mode(how.mode, "cpu", steps)
    nets = (network(c.name, exp.dataset, how, dtype) for c in exp.cohorts)
    cohorts = zip(exp.cohorts, nets, strict=True)
    return exp._replace(
        cohorts=tuple(dataclasses.replace(c, net=net, mode=mode) for c, net in cohorts)
    )


def network(name: str, dataset: Dataset, how: Form, dtype: str) -> Net:
    """Builds a network with the operations of a form."""
    return models.build(
        name,
        input_shape=dataset.x.shape[1:],
        num_classes=dataset.num_classes,
        feat_dim=DIM,
        ops=how.ops,
        compute_dtype=dtype,
        vocab_size=len(dataset.tokens) or None,
    )


def traced(exp: Experiment, mesh: Mesh) -> list[Traced]:
    """Traces all programs of a run, with clients divided among the mesh's devices."""
    all_traced = []

    def submit(name, f, *rest):
        arguments, options = (exp.floats, *rest), dict(f.options)
        own = OWN.get(name.split()[0], ())
        if mesh.size > 1 and own:
            f = divided(f, mesh, own, len(arguments))
        if name in UPLOADS:
            own = (UPLOADS[name],)
        placed = [at(arg, mesh, i in own) for i, arg in enumerate(arguments)]
        if name.startswith("start_clients"):
            options["out_shardings"] = NamedSharding(mesh, P(AXIS))
        stage = jax.jit(f, **options).trace(*placed)
        all_traced.append(Traced(name, stage.out_info, stage))
        return all_traced[-1]

    x, y = exp.dataset.x, exp.dataset.y
    examples = Examples(batches.flatten_inputs(x), y, shape=x.shape[1:])
    compiler.submit_programs(submit, exp, programs.build_programs(exp), examples)
    return all_traced


def divided(f: Callable, mesh: Mesh, own: Sequence[int], count: int) -> Callable:
    """Applies `f` on every device to its rows of some arguments.

    Args:
      f: function to apply.
      mesh: devices.
      own: positions of the arguments with a row for each client.
      count: number of arguments of `f`.
    """
    specs = tuple(P(AXIS) if i in own else P() for i in range(count))
    options = {"in_specs": specs, "out_specs": P(AXIS), "check_vma": False}
    return jax.shard_map(f, mesh=mesh, **options)


def at(tree: Tree, mesh: Mesh, own: bool) -> Tree:
    """Places shapes on the mesh: divided along the first axis if `own`, else copied."""
    sharding = NamedSharding(mesh, P(AXIS) if own else P())

    def shape(a):
        return jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding)

    return jax.tree.map(shape, jax.eval_shape(lambda t: t, tree))


def step(name: str, group: str, how: Form, dtype: str, mesh: Mesh) -> Traced:
    """Traces a local step of a group's clients of one network: cross-entropy and SGD.

    The program has all clients that train in step. If clients run one after the other,
    it has the step of one client.
    """
    dataset = GROUPS[group]()
    net = network(name, dataset, how, dtype)
    f = partial(sgd, net)
    shapes = step_shapes(net, dataset)
    if how.mode != "one":
        f, clients = jax.vmap(f), at_once(group, how.mode)
        shapes = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct((clients, *a.shape), a.dtype), shapes
        )
    stage = jax.jit(f).trace(*(at(arg, mesh, False) for arg in shapes))
    return Traced(f"step {name}", stage.out_info, stage)


def step_shapes(net: Net, dataset: Dataset) -> tuple[Tree, ...]:
    """Returns the shapes of the arguments of `sgd` for one client."""
    key = jax.eval_shape(make_key, 0)
    params, norm = jax.eval_shape(net.init, key)
    x = dataset.x
    kind = jnp.float32 if x.dtype == np.uint8 else x.dtype
    x = jax.ShapeDtypeStruct((BATCH, *x.shape[1:]), kind)
    return params, norm, x, jax.ShapeDtypeStruct((BATCH,), jnp.int32), key


def sgd(net: Net, params: Tree, norm: Tree, x, y, key):
    """Returns parameters and statistics after a step on one batch, and its loss."""

    def loss(params):
        out = net.apply(params, norm, x, True, key)
        log_probs = jnp.take_along_axis(jax.nn.log_softmax(out.logits), y[:, None], 1)
        return -jnp.mean(log_probs), out.norm

    (value, norm), grads = jax.value_and_grad(loss, has_aux=True)(params)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), norm, value


def wanted(program: Traced, networks: Sequence[str]) -> bool:
    """Returns whether a program is the server's or of one of the networks."""
    cohort = program.name.split()[-1]
    return cohort not in NETWORKS or cohort in networks
