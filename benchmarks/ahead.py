"""Programs of a run, compiled for accelerators that are not there.

Nothing is executed and no data are read: sizes are those of CIFAR-10 (Ht0, HmCNN) and
of AG News (text), 20 clients, ProtoNorm with the papers' batch of 32.
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from jaxproto import config as config_
from jaxproto import models
from jaxproto.data import registry
from jaxproto.data.dataset import Dataset
from jaxproto.errors import choose_from
from jaxproto.experiment import build
from jaxproto.experiment import cohorts as cohorts_
from jaxproto.experiment.build import Experiment
from jaxproto.models.ops import Ops, ops
from jaxproto.training import batched_programs, compiler, programs
from jaxproto.types import Examples, Net, Tree

CLIENTS, BATCH, DIM = 20, 32, 512
AXIS = "clients"  # of the mesh
OPS = {"lax": ops.LAX, "cpu": ops.CPU, "tpu": ops.TPU, "gpu": ops.GPU}
OWN = {"train": (2, 4), "evaluate": (2, 4), "pre-upload": (2, 4)}  # arguments that have
# a row for each client: their states, their examples
UPLOADS = {"update": 3, "pre-aggregate": 3}  # the argument that has them


class Form(NamedTuple):
    """How clients run (as `clients_at_once` says), and their operations."""

    name: str
    mode: str
    ops: Ops


class Traced(NamedTuple):
    """A program that is neither lowered nor compiled unless it is asked for."""

    name: str
    out: Tree  # shapes of its results
    stage: jax.stages.Traced


def form(text: str) -> Form:
    """Of a name such as `all:lax`."""
    mode, _, kind = text.partition(":")
    return Form(text, mode, OPS[choose_from("operations", kind, OPS)])


def images() -> Dataset:
    """CIFAR-10 by shape."""
    x, y = np.zeros((60_000, 32, 32, 3), np.uint8), np.arange(60_000) % 10
    return Dataset("shapes", x, y.astype(np.int32), 10, 50_000)


def texts() -> Dataset:
    """AG News by shape: tokens of 200 words out of 32,000."""
    x, y = np.zeros((127_600, 200), np.int32), np.arange(127_600) % 4
    words = tuple(map(str, range(32_000)))
    return Dataset("shapes", x, y.astype(np.int32), 4, 120_000, tokens=words)


GROUPS: dict[str, Callable[[], Dataset]] = {"Ht0": images, "HmCNN": images}
GROUPS["text"] = texts
NETWORKS = tuple(name for group in GROUPS for name in models.GROUPS[group])


def groups(networks: Sequence[str]) -> list[str]:
    """The groups that have one of these networks."""
    chosen = {choose_from("network", name, NETWORKS) for name in networks}
    return [group for group in GROUPS if chosen & {*models.GROUPS[group]}]


def rows(group: str, chips: int) -> int:
    """Clients of one architecture: their share of 20, made up to a multiple of chips.

    On several chips the rows of a cohort are divided; what is missing is padding, which
    has no step to take.
    """
    share = CLIENTS // len(models.GROUPS[group])
    return -(-share // chips) * chips


def at_once(group: str, mode: str) -> int:
    """Clients of one architecture that are in step."""
    return {"one": 1, "all": rows(group, 1)}.get(mode) or int(mode)


def federation(group: str, how: Form, dtype: str, chips: int = 1) -> Experiment:
    """A group's federation; on several chips each runs its rows in the form."""
    each, names = rows(group, chips), models.GROUPS[group]
    made = config_.default()
    made.method = ml_collections.ConfigDict(config_.method_fields("protonorm"))
    fields = {
        "data.name": "shapes",
        "data.clients": each * len(names),
        "data.partition": "iid",
        "model.group": group,
        "model.feat_dim": DIM,
        "model.compute_dtype": dtype,
        "local.batch_size": BATCH,
        "clients_at_once": how.mode,
    }
    made.update_from_flattened_dict(fields)
    config_.check(made)
    dataset = GROUPS[group]()
    with mock.patch.dict(registry.DATASETS, {"shapes": lambda seed: dataset}):
        exp = batched_programs.without_lanes(build.experiment(made, "cpu"))
    steps = cohorts_.steps_per_round(exp.partition, range(each // chips), exp.local)
    mode = cohorts_.build_mode(how.mode, "cpu", steps)
    nets = (network(c.name, exp.dataset, how, dtype) for c in exp.cohorts)
    cohorts = zip(exp.cohorts, nets, strict=True)
    return exp._replace(
        cohorts=tuple(dataclasses.replace(c, net=net, mode=mode) for c, net in cohorts)
    )


def network(name: str, dataset: Dataset, how: Form, dtype: str) -> Net:
    """A network with the operations of a form."""
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
    """All programs of a run for the devices of a mesh, clients divided among them."""
    found = []

    def submit(name, f, *rest, **options):
        given = (exp.floats, *rest)
        own = OWN.get(name.split()[0], ())
        if mesh.size > 1 and own:
            f = divided(f, mesh, own, len(given))
        if name in UPLOADS:
            own = (UPLOADS[name],)
        placed = [at(arg, mesh, i in own) for i, arg in enumerate(given)]
        if name.startswith("first ") and name != "first server":
            options["out_shardings"] = NamedSharding(mesh, P(AXIS))
        stage = jax.jit(f, **options).trace(*placed)
        found.append(Traced(name, stage.out_info, stage))
        return found[-1]

    x, y = exp.dataset.x, exp.dataset.y
    examples = Examples(build.flatten_inputs(x), y, shape=x.shape[1:])
    compiler.submit_programs(submit, exp, programs.build_programs(exp), examples)
    return found


def divided(f: Callable, mesh: Mesh, own: Sequence[int], many: int) -> Callable:
    """`f` of each device's rows of the arguments `own`; it has `many` arguments."""
    specs = tuple(P(AXIS) if i in own else P() for i in range(many))
    options = {"in_specs": specs, "out_specs": P(AXIS), "check_vma": False}
    return jax.shard_map(f, mesh=mesh, **options)


def at(tree: Tree, mesh: Mesh, own: bool) -> Tree:
    """Shapes of a tree on the mesh: divided along the first axis, or copied."""
    sharding = NamedSharding(mesh, P(AXIS) if own else P())

    def shape(a):
        return jax.ShapeDtypeStruct(np.shape(a), dtype_of(a), sharding=sharding)

    return jax.tree.map(shape, tree)


def dtype_of(a):
    """Of an array, a shape or a number, as JAX takes it."""
    return a.dtype if hasattr(a, "dtype") else jnp.result_type(a)


def step(name: str, group: str, how: Form, dtype: str, mesh: Mesh) -> Traced:
    """One local step of a group's clients of one network: cross-entropy and SGD.

    Clients in step are one program; of clients one after the other it is the step of
    one, which every client repeats.
    """
    dataset = GROUPS[group]()
    net = network(name, dataset, how, dtype)
    f = partial(sgd, net)
    one = step_shapes(net, dataset)
    if how.mode != "one":
        f, clients = jax.vmap(f), at_once(group, how.mode)
        one = jax.tree.map(
            lambda a: jax.ShapeDtypeStruct((clients, *a.shape), a.dtype), one
        )
    stage = jax.jit(f).trace(*(at(arg, mesh, False) for arg in one))
    return Traced(f"step {name}", stage.out_info, stage)


def step_shapes(net: Net, dataset: Dataset) -> tuple[Tree, ...]:
    """Shapes of the arguments of `sgd` for one client."""
    key = jax.eval_shape(jax.random.key, 0)
    params, norm = jax.eval_shape(net.init, key)
    x = dataset.x
    kind = jnp.float32 if x.dtype == np.uint8 else x.dtype
    x = jax.ShapeDtypeStruct((BATCH, *x.shape[1:]), kind)
    return params, norm, x, jax.ShapeDtypeStruct((BATCH,), jnp.int32), key


def sgd(net: Net, params: Tree, norm: Tree, x, y, key):
    """Parameters and statistics after a step on one batch, and its loss."""

    def loss(params):
        out = net.apply(params, norm, x, True, key)
        told = jnp.take_along_axis(jax.nn.log_softmax(out.logits), y[:, None], 1)
        return -jnp.mean(told), out.norm

    (value, norm), grads = jax.value_and_grad(loss, has_aux=True)(params)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), norm, value


def memory(compiled: jax.stages.Compiled) -> dict[str, int]:
    """Bytes on one device: arguments, results, what they share, temporaries, all."""
    said = compiled.memory_analysis()
    kinds = ("argument", "output", "alias", "temp")
    found = {kind: getattr(said, f"{kind}_size_in_bytes") for kind in kinds}
    need = found["argument"] + found["output"] - found["alias"] + found["temp"]
    return {**found, "need": need}


def wanted(program: Traced, networks: Sequence[str]) -> bool:
    """Whether it is of the server, or of a cohort of one of the networks."""
    cohort = program.name.split()[-1]
    return cohort not in NETWORKS or cohort in networks
