"""Inputs of figures that the folder of a run does not hold.

They are computed from the experiment and the last checkpoint (`saved_runs.restore`).
"""

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from jaxproto import wire
from jaxproto.core.types import Protos
from jaxproto.errors import UserError
from jaxproto.experiment import build, method_builder
from jaxproto.lab.saved_runs.restore import RestoredRun
from jaxproto.prototypes import kernels
from jaxproto.round import federation, gather
from jaxproto.training import programs


def before_alignment(run: RestoredRun) -> Protos:
    """Returns the global prototypes before the alignment of the last round.

    Checkpoints lack them: the method without alignment computes them again from the
    local prototypes of the clients that reported.

    Raises:
      UserError: the run has no alignment.
    """
    config, exp, server = run.config, run.exp, run.state.server
    if config.method.get("alignment", "none") == "none":
        raise UserError(
            f"{run.path} has no alignment to trace: its method is "
            f"{config.method.name!r}. Give runs with method.alignment."
        )
    fields = ml_collections.ConfigDict(config.method.to_dict() | {"alignment": "none"})
    method = method_builder.build_method(fields, exp.spec, 0, config)
    unaligned = server._replace(transform=(server.transform[0], ()))
    context = programs.round_context(config.seed, run.round - 1)
    reports_K = (
        programs.build_programs(exp).participate(exp.floats, context, server).reports
    )
    up = received_prototypes(run, reports_K)
    return method.update(exp.cohorts[0].net, unaligned, up, context[1]).protos


def after_first_round(run: RestoredRun) -> RestoredRun:
    """Trains the first round again; returns the run with the state after it."""
    exp, seed = run.exp, run.config.seed
    fed, (_, key) = build.federation(exp), programs.round_context(seed, 0)

    @jax.jit
    def train(keys, floats, examples, shards):
        whole = fed._replace(examples=examples, shards=shards)
        start = federation.init_model(whole, floats, keys)
        return federation.one_round(whole, floats, key, start, jnp.int32(0))[0]

    floats = {path: jnp.float32(value) for path, value in exp.floats.items()}
    after = train(programs.keys(seed)[:2], floats, fed.examples, fed.shards)
    state = run.state._replace(server=after.server, clients=after.clients)
    return run._replace(round=1, state=state)


def received_prototypes(run: RestoredRun, reports_K) -> Protos:
    """Returns the local prototypes [K, C, D] that the server received."""
    parts = [(c.memory, c.count) for c in run.state.clients]
    local, count_KC = gather.join_by_id([c.ids for c in run.exp.cohorts], parts)
    held_KC = count_KC * (local.count > 0) * reports_K[:, None]
    up = Protos(local.mean, held_KC, disclosed=True)
    return jax.vmap(lambda p: wire.unpack(wire.pack(p, run.exp.formats.up)))(up)


def alignment_trace(protos: Protos) -> dict[str, np.ndarray]:
    """Returns `kernels.align_trace` of global prototypes until its last iteration."""
    here_C = jnp.asarray(protos.count > 0)
    _, steps, trace = jax.jit(kernels.align_trace)(jnp.asarray(protos.mean), here_C)
    columns = trace._asdict().items()
    return {name: np.asarray(a)[: int(steps) + 1] for name, a in columns}
