"""One round of one client without compilation, for `print` and breakpoints."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import jax
import ml_collections
from rich.console import Console

from jaxproto import config as config_
from jaxproto.data.partitions.partition import (
    FederationData,
    Partition,
)
from jaxproto.experiment import build
from jaxproto.experiment.data import build_data
from jaxproto.round import execution
from jaxproto.summary.progress_lines import make_console, say
from jaxproto.training import programs
from jaxproto.training.engine import LocalEngine, evaluate, next_state
from jaxproto.training.programs import Programs
from jaxproto.training.stores import open_store

BATCHES = 2  # of training examples, and of test examples
STAGES = {  # program -> stage, and names of the results
    "start_server": ("first state of the server", "server"),
    "start_clients": ("first state of the client", "client"),
    "broadcast": ("broadcast", "broadcast"),
    "pre_upload": ("message before training", "uploads", "report"),
    "pre_aggregate": ("aggregation before training", "server"),
    "train": ("local training and upload", "client", "uploads", "report"),
    "update": ("aggregation", "server"),
    "evaluate": ("evaluation", "sums"),
}


def debug(
    config: ml_collections.ConfigDict | str, console: Console | None = None
) -> dict:
    """Computes a round and its evaluation in plain Python; writes no file.

    The largest client trains alone for one epoch of two batches. No function of the
    method is compiled or mapped, so its arguments are arrays, except under `jax.grad`
    in `loss` and where only shapes are computed (`init_server`, `init_client`).
    Types and shapes of all results are printed by stage.

    Args:
      config: as in `jaxproto.run`.
      console: where stages and shapes are printed.

    Returns:
      The record of the evaluation, as in `metrics.jsonl`.

    Raises:
      UserError: names, data or networks that cannot work.
      Diverged: a loss, an upload or a parameter is not finite.
    """
    config = config_.from_name(config)
    with jax.disable_jit(False):  # allowed here
        config_.check(config)
    config = config.copy_and_resolve_references()
    config.local.epochs, config.clients.store = 1, "device"
    data = _one_client(config)
    with jax.disable_jit():  # the method is not checked by shapes first
        exp = build.experiment(config, jax.default_backend(), data=data)
    mode = execution.only_client()
    cohorts = (dataclasses.replace(cohort, mode=mode) for cohort in exp.cohorts)
    exp = exp._replace(cohorts=tuple(cohorts))
    with jax.disable_jit():
        plain = programs.plain_programs(exp)
        printing = _printing(plain, console or make_console())
        store = open_store(exp, printing, config.seed, Path())
        examples = build.examples(exp.dataset)
        engine = LocalEngine(exp, examples, printing, config.seed, store)
        state = programs.init(exp, config.seed, printing)
        state, summary = next_state(engine, 0, state)
        return evaluate(engine, 1, state, summary, [0.0])


def _one_client(config: ml_collections.ConfigDict) -> FederationData:
    """Returns the data with a few batches of the client that has most examples."""
    data = build_data(config_.resolved_data_fields(config))
    clients = zip(data.partition.train, data.partition.test, strict=True)
    largest = max(clients, key=lambda parts: len(parts[0]))
    train, test = (rows[: BATCHES * config.local.batch_size] for rows in largest)
    partition = Partition((train,), (test,))
    return data._replace(partition=partition, num_examples=len(train))


def _printing(plain: Programs, console: Console) -> Programs:
    """Returns programs that print their stage, and the types of their results."""
    printing = {}
    for name, (stage, *results) in STAGES.items():
        wrap = partial(partial, _printed, console, stage, results)
        printing[name] = jax.tree.map(wrap, getattr(plain, name))
    return plain._replace(**printing)


def _printed(
    console: Console, stage: str, names: Sequence[str], program: Callable, *args
):
    """Calls a program; prints its stage, and the types of its results by `names`."""
    say(console, f"{stage}:")
    result = program(*args)
    parts = dict(zip(names, result if len(names) > 1 else [result], strict=True))
    for path, leaf in jax.tree_util.tree_leaves_with_path(parts):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        say(console, f"  {name}  {jax.typeof(leaf)}")
    return result
