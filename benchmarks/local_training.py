"""Samples per second of local training: forward, backward and SGD, per network.

    python -m benchmarks.local_training
    python -m benchmarks.local_training --networks=resnet8 --contenders=ours,torch
    python -m benchmarks.local_training --contenders=ours,all:lax,one:lax,4:matmul
    python -m benchmarks.local_training --contenders=ours,auto:bfloat16

`ours` is the local training of a run, for clients of one architecture, in the form of
the platform: on a CPU, a call for the clients of each core, side by side. `naive` is
one jitted `vmap` of a step over the clients, with XLA's convolutions. `naive_loop` also
has the loop over the steps inside the program, like `ours`. `torch` is an eager PyTorch
loop over the clients. FORM:OPS is `ours` in another form (one, all, or a number of
clients at a time) with other operations (lax, matmul, or bfloat16 on CPUs).
"""

import dataclasses
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from benchmarks import ceiling as ceiling_
from benchmarks import measure, synthetic
from jaxproto import models
from jaxproto.core import batches
from jaxproto.core.jax_settings import make_key
from jaxproto.core.types import Batch, Examples, Net, Shard, Spec
from jaxproto.experiment import cohorts
from jaxproto.experiment.cohorts import CohortPlan
from jaxproto.methods.fedproto import Pull
from jaxproto.methods.protonorm import protonorm
from jaxproto.models.ops import ops
from jaxproto.prototypes import losses
from jaxproto.round import execution, federation, gather, participation
from jaxproto.round.client import LocalTraining
from jaxproto.training.threads import run_parallel
from jaxproto.wire import EXACT

NETWORKS = "resnet8,mobilenet_v2,shufflenet_v2_x1_0,efficientnet_b0,cnn4"
CONTENDERS = "ours,naive,naive_loop,torch"
FLAGS = measure.flag_values(
    *("repeats", "batch", "pixels", "classes", "dim"),
    networks=(NETWORKS.split(","), "names of networks"),
    contenders=(CONTENDERS.split(","), "in this order"),
    clients=(4, "clients of one architecture"),
    steps=(10, "local steps per client"),
    naive_steps=(1, "local steps of `naive*`"),
    naive_repeats=(2, "timed repetitions of `naive`"),
)

BASES = ("torch", "naive", "naive_loop")  # contenders that others are divided by
RATE, LAM, GAMMA = 0.01, 10.0, 100.0  # ProtoNorm, Section 5.1; lam as released
OPS = {
    "auto": ops.ops_for,
    "lax": lambda: ops.LAX,
    "matmul": lambda: ops.CPU,
    "bfloat16": lambda: ops.CPU_BFLOAT16,
}


class Task(NamedTuple):
    """Training that all contenders do for one network."""

    name: str
    spec: Spec
    shape: tuple[int, ...]
    clients: int
    batch: int
    examples: Examples
    protos: jax.Array  # [C, D] global prototypes
    method: object


class Contender(NamedTuple):
    """A function that trains, and its number of samples."""

    run: Callable[[], None]
    samples: int
    compile_seconds: float | None = None


def make_task(name: str, s: dict) -> Task:
    """Makes random images for all steps of all clients, and ProtoNorm's loss."""
    spec, shape = Spec(s["classes"], s["dim"]), (s["pixels"], s["pixels"], 3)
    steps = max(s["steps"], s["naive_steps"])
    x, y = synthetic.images(s["clients"] * steps * s["batch"], shape, spec.num_classes)
    method = protonorm(spec, pull=Pull(LAM, losses.mse_mean), upscale=GAMMA)
    method = dataclasses.replace(
        method,
        upload=lambda net, before, after, data, down, sums: ((), after.memory),
    )
    protos = jax.random.normal(make_key(1), spec)
    protos /= jnp.linalg.norm(protos, axis=1, keepdims=True)
    examples = Examples(jnp.asarray(x), jnp.asarray(y))
    return Task(name, spec, shape, s["clients"], s["batch"], examples, protos, method)


def server(task: Task, net: Net):
    """Returns a server state with a prototype of every class."""
    state = task.method.init_server(net, make_key(0))
    present = jnp.ones(task.spec.num_classes)
    return state._replace(protos=state.protos.replace(mean=task.protos, count=present))


def network(task: Task, kind: str, dtype: str = "float32") -> Net:
    """Builds the network with operations of one kind, and a body of one precision."""
    classes, dim = task.spec
    options = {"num_classes": classes, "feat_dim": dim, "ops": OPS[kind]()}
    options["compute_dtype"] = dtype
    return models.build(task.name, input_shape=task.shape, **options)


def ours(
    task: Task, mode: str, kind: str, steps: int, dtype: str = "float32"
) -> Contender:
    """Compiles a run's local training of one cohort, in its calls."""
    net, key = network(task, kind, dtype), make_key(0)
    size = len(task.examples.y) // task.clients
    index = jnp.arange(task.clients * size, dtype=jnp.int32).reshape(-1, size)
    shards = Shard(index, jnp.full(task.clients, steps * task.batch, jnp.int32))
    cohort, platform = cohort_of(task, net, mode, steps), jax.default_backend()
    calls = min(cohorts.usable_cores(mode, platform), task.clients)
    local = LocalTraining(optax.sgd(RATE), batch_size=task.batch)
    count = jnp.ones((task.clients, task.spec.num_classes))
    init = jax.jit(partial(federation.init_cohort, task.method, local, cohort))
    clients, state = init(key, count), server(task, net)
    participants = participation.all_clients()(key, task.clients, 0)
    down = federation.broadcast(task.method, state, EXACT).message

    def train(clients, shards):
        inputs = federation.RoundInputs(
            method=task.method,
            local=local,
            formats=EXACT,
            participants=participants,
            down=down,
            key=key,
        )
        return federation.train_cohort(inputs, cohort, clients, task.examples, shards)

    @jax.jit
    def gathered(clients):
        return gather.gather(participants, clients, shards, cohort.num_rows, calls)

    scatter = jax.jit(gather.scatter, donate_argnums=0)
    rows = gathered(clients)
    begin = time.perf_counter()
    lowered = jax.jit(train, donate_argnums=0).lower(rows[0].clients, rows[0].shards)
    compiled = lowered.compile()
    seconds = time.perf_counter() - begin

    def run():
        nonlocal clients
        rows = gathered(clients)
        each = [partial(compiled, own.clients, own.shards) for own in rows]
        trained, _, reports = zip(*run_parallel(each), strict=True)
        clients = scatter(clients, [own.place for own in rows], list(trained))
        for report in reports:
            if not np.all(jax.device_get((report.usable, report.finite))):
                sys.exit(f"error: the loss of {task.name} is no longer finite.")

    return Contender(run, task.clients * steps * task.batch, seconds)


def cohort_of(task: Task, net: Net, mode: str, steps: int) -> CohortPlan:
    """Plans the clients of the task as in a federation of this network alone."""
    platform = jax.default_backend()
    return CohortPlan(
        task.name,
        net,
        tuple(range(task.clients)),
        execution.build_mode(mode, platform, [steps] * task.clients),
    )


def naive(task: Task, steps: int) -> Contender:
    """Compiles one step of all clients as a `vmap`, which is called for every step."""
    net = network(task, "lax")
    down = task.method.broadcast(server(task, net))
    keys = jax.random.split(make_key(0), task.clients)
    params, norm, _ = jax.jit(jax.vmap(partial(task.method.init_client, net)))(keys)
    arrays = task.examples.x, task.examples.y
    x, y = (a.reshape(task.clients, -1, *a.shape[1:]) for a in arrays)

    def step(params, norm, x, y, key):
        batch = Batch(batches.normalise_inputs(x), y, jnp.ones(task.batch), key)
        loss = partial(task.method.loss, net)
        grads, aux = jax.grad(loss, has_aux=True)(params, norm, batch, down, None)
        return jax.tree.map(lambda p, g: p - RATE * g, params, grads), aux.norm

    jitted = jax.jit(jax.vmap(step), donate_argnums=(0, 1))
    first = (x[:, : task.batch], y[:, : task.batch], keys)
    begin = time.perf_counter()
    compiled = jitted.lower(params, norm, *first).compile()
    seconds = time.perf_counter() - begin

    def run():
        nonlocal params, norm
        for s in range(steps):
            now = slice(s * task.batch, (s + 1) * task.batch)
            params, norm = compiled(params, norm, x[:, now], y[:, now], keys)
        jax.block_until_ready(params)

    return Contender(run, task.clients * steps * task.batch, seconds)


def eager(task: Task, steps: int) -> Contender:
    """Returns the contender in PyTorch, with decoded images in memory."""
    from benchmarks import torch_loops

    x = np.asarray(batches.normalise_inputs(task.examples.x)).transpose(0, 3, 1, 2)
    shape = (task.clients, -1, task.batch)
    data = [a.reshape(*shape, *a.shape[1:]) for a in (x, np.asarray(task.examples.y))]
    protos = np.asarray(GAMMA * task.protos)
    hyper = torch_loops.Hyper(*task.spec, RATE, LAM)
    run = torch_loops.local_training(task.name, task.shape, hyper, protos, *data, steps)
    return Contender(run, task.clients * steps * task.batch)


def contender(which: str, task: Task, s: dict) -> Contender | None:
    """Returns a contender by its name; None for PyTorch if it is not installed."""
    if which == "naive":
        return naive(task, s["naive_steps"])
    if which == "naive_loop":
        return ours(task, "all", "lax", s["naive_steps"])
    if which == "torch":
        return eager(task, s["steps"]) if measure.has_torch() else None
    mode, _, kind = {"ours": "auto:auto"}.get(which, which).partition(":")
    if kind not in OPS:
        sys.exit(f"error: --contenders has {which!r}, not {CONTENDERS} or FORM:OPS.")
    return ours(task, mode, kind, s["steps"])


def one_network(name: str, s: dict, ceiling: float) -> list[dict]:
    """Times all contenders on one network, in turn.

    Args:
      ceiling: floating-point operations per second of a matrix product.
    """
    task = make_task(name, s)
    contenders = {which: contender(which, task, s) for which in s["contenders"]}
    contenders = {which: c for which, c in contenders.items() if c is not None}
    runs = {which: c.run for which, c in contenders.items()}
    fewer = {"naive": min(s["naive_repeats"], s["repeats"]), "naive_loop": 1}
    times = measure.alternate(runs, s["repeats"], fewer)
    speed = {which: c.samples / times[which].median for which, c in contenders.items()}
    flops = ceiling_.training_flops(name, task.shape, *task.spec)
    return [
        {
            "network": name,
            "contender": which,
            "samples_per_second": speed[which],
            "share_of_ceiling": flops and speed[which] * flops / ceiling,
            **{f"times_{b}": speed[which] / speed[b] for b in BASES if b in speed},
            "slowest": c.samples / max(times[which].seconds),
            "fastest": c.samples / min(times[which].seconds),
            "compile_seconds": c.compile_seconds,
            "time": times[which].record(),
        }
        for which, c in contenders.items()
    ]


def main(argv):
    """Measures every network."""
    settings = measure.parse(FLAGS, argv, __doc__)
    if "torch" in settings["contenders"] and not measure.has_torch():
        print(measure.NO_TORCH)
    rows, ceiling = [], ceiling_.matmul_flops()
    for name in settings["networks"]:
        rows += one_network(name, settings, ceiling)
        print(f"{name}: done", flush=True)
    columns = {
        "network": "network",
        "contender": "contender",
        "samples_per_second": "samples/s",
        "slowest": "slowest",
        "fastest": "fastest",
        **{f"times_{b}": f"x {b}" for b in BASES},
        "share_of_ceiling": "ceiling",
        "compile_seconds": "compile s",
    }
    cells = [[r.get(k) for k in columns] for r in rows]
    title = f"Local training, medians; ceiling: {ceiling / 1e9:.0f} GF/s in a matmul"
    view = measure.table(title, columns.values(), cells)
    results = {"matmul_flops": ceiling, "rows": rows}
    measure.finish("local_training", settings, results, [view])


if __name__ == "__main__":
    main(sys.argv)
