"""The server's folder: that of a run of the simulator, but for what clients keep.

It has the same files, so that `compare`, pictures of records and `jaxproto.load` read
it, and beside them `nodes.json`, which says that the clients are on nodes, and
`faults.jsonl`, a line for each message that did not come to its end. A checkpoint is
written after every round. The same call goes on after the last one.
"""

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import ml_collections
from rich.console import Console

from jaxproto import config as config_
from jaxproto.config import build
from jaxproto.data.datasets import NODES
from jaxproto.errors import UserError
from jaxproto.flower.agreeing import AgreeingLink, lines
from jaxproto.flower.messages import experiment
from jaxproto.flower.server import Fault, Link, Server
from jaxproto.report import reference
from jaxproto.report import summary as summaries
from jaxproto.storage import naming, records
from jaxproto.storage import workdir as folder
from jaxproto.training import account, compilation, runner
from jaxproto.training.programs import State
from jaxproto.training.progress import result_table
from jaxproto.training.rounds import Diverged, Round, Work

FAULTS = "faults.jsonl"


def serve(
    config: ml_collections.ConfigDict,
    workdir: str | Path,
    link: Link,
    console: Console,
) -> dict:
    """Runs or resumes the server of a federation; returns its summary.

    Args:
      config: of the federation.
      workdir: the server's folder; "" is the one that the simulator would take.
      link: to the clients.
      console: where progress goes.

    Raises:
      UserError: the configuration or the folder cannot be used, or nobody is there.
    """
    config_.check(config)
    path = Path(workdir or naming.default(config))
    with contextlib.ExitStack() as stack:
        claimed = stack.enter_context(folder.claim(path))
        start = runner.Start(config, path, console, 0.0, claimed)
        summary = runner.existing(start)
        if summary is None:
            summary = _trained(start, link)
    console.print(result_table(summary))
    return summary


def _trained(start: runner.Start, link: Link) -> dict:
    config, path = start.config, start.path
    compilation.keep_compiled()
    fault = partial(_noted, path, start.console)
    if config.data.name == NODES:
        server = _agreed(start, link, fault)
    else:
        server = Server(experiment(config, path), config.seed, link, fault)
        summaries.partition(server.exp, path, start.console)
    exp = server.exp
    folder.save_tokens(path, exp.dataset.tokens)
    due = folder.due(path, config)
    folder.save_config(path, config)
    records.write_json(path / folder.NODES, {"clients": "nodes"})
    start.claimed.keep()
    took = summaries.Compiled(0.0, 0)
    work = Work(exp, build.examples(exp.dataset), server.run, config.seed)
    given = took, start.console, 0.0, start.shown, start.listeners()
    spent = account.ledger(config, exp)
    run = runner.Run(config, path, work, *given, spent=spent)
    first, state = runner.resume(run, server.begun(config.eval_every), due)
    status: Mapping = {"status": folder.FINISHED}
    try:
        _rounds(run, server, first, state)
    except Diverged as e:
        status = runner.diverged(run, e)
    metrics = records.read(path / "metrics.jsonl")
    summary = summaries.summary(config, server.exp, metrics, took, status)
    if config.data.name == NODES:  # which asks for examples by class
        summary = {k: v for k, v in summary.items() if k not in reference.ENTRIES}
    records.write_json(path / "summary.json", summary)
    return summary


def _agreed(start: runner.Start, link: Link, fault: Callable[[Fault], None]) -> Server:
    """The server of nodes with data of their own."""
    config, path = start.config, start.path
    agreeing = AgreeingLink(link, config, path, fault)
    exp = experiment(config, given=agreeing.given())
    server = Server(exp, config.seed, agreeing, fault)

    def grown():
        tests = agreeing.given().partition.test
        server.exp = server.exp._replace(
            partition=server.exp.partition._replace(test=tests)
        )

    agreeing.grown = grown
    for line in lines(agreeing.made):
        start.console.print(line, markup=False, highlight=False, soft_wrap=True)
    return server


def _rounds(run: runner.Run, server: Server, first: int, state: State):
    """The loop over rounds; each is in a checkpoint when the next one begins."""
    config, seconds = run.config, list[float]()
    for r in range(first, config.rounds):
        clock = time.perf_counter()
        state, told = server.one_round(r, state)
        seconds.append(time.perf_counter() - clock)
        if r + 1 == config.rounds or (r + 1) % config.eval_every == 0:
            _evaluated(run, server, r + 1, state, told, seconds)
            seconds = []
        runner.keep(run, r + 1, state)


def _evaluated(
    run: runner.Run,
    server: Server,
    r: int,
    state: State,
    told: Round,
    seconds: Sequence[float],
):
    """Writes the record of an evaluation.

    Raises:
      UserError: no client was there to be evaluated.
    """
    among, found = server.evaluate(r, state.server)
    if not among.cohorts:
        raise UserError(
            f"no client was evaluated after round {r}: none answered. The rounds "
            "before it are saved; the same command goes on when nodes are there."
        )
    here = run._replace(work=run.work._replace(exp=among))
    made = runner.recorded(here, r, state, told, seconds, found)
    each = ", ".join(f"{n} {a['pooled']:.4f}" for n, a in made["rules"].items())
    line = f"round {r}: {each}; {told.participants} clients, {made['seconds']:.1f} s"
    run.console.print(line, highlight=False, soft_wrap=True)


def _noted(path: Path, console: Console, fault: Fault):
    """Writes and prints a fault."""
    records.append(path / FAULTS, fault._asdict())
    line = f"round {fault.round}, client {fault.client}, {fault.stage}: {fault.why}"
    console.print(line, markup=False, highlight=False, soft_wrap=True)
