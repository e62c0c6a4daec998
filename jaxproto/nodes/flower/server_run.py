"""Run of the server of a federation, in a run directory like that of the simulator.

`compare`, plots and `jaxproto.load` read the directory. It also holds `nodes.json`,
which marks the run as one on nodes, and `faults.jsonl`, with a line per lost message. A
checkpoint is written after every round, and the same call resumes from the last one.
"""

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import ml_collections
from rich.console import Console

from jaxproto.config import check
from jaxproto.data.registry import NODES
from jaxproto.nodes.flower import secret_keys
from jaxproto.nodes.flower.accept import partition_limits, schema_limits
from jaxproto.nodes.flower.handshake import HandshakeLink, describe_schema
from jaxproto.nodes.flower.protocol import experiment
from jaxproto.nodes.flower.server import Link, LostMessage, Server
from jaxproto.storage import default_workdir, records, run_folder
from jaxproto.storage.workdir import lock_workdir
from jaxproto.summary import run_summary
from jaxproto.summary.progress_lines import print_table, say
from jaxproto.training import runner, xla_cache
from jaxproto.training.client_store import ClientStore
from jaxproto.training.loop import train_rounds
from jaxproto.training.progress import result_table
from jaxproto.training.rounds import initial_state

FAULTS = "faults.jsonl"


def run_server(
    config: ml_collections.ConfigDict,
    workdir: str | Path,
    link: Link,
    console: Console,
    same_code: bool = False,
) -> dict:
    """Runs or resumes the server of a federation; returns its summary.

    Args:
      workdir: Folder of the server; "" is the run directory of the simulator.
      same_code: Whether a begun run goes on although code of yours has changed.

    Raises:
      UserError: the configuration or the folder cannot be used, or no client answers.
    """
    check(config)
    path = Path(workdir or default_workdir.default_workdir(config))
    with lock_workdir(path) as lock:
        start = runner.Start(
            config,
            path,
            console,
            grace=0.0,
            lock=lock,
            progress=PlainProgress,
            same_code=same_code,
        )
        summary = runner.finished_summary(start)
        if summary is None:
            summary = _train(start, link)
    print_table(console, result_table(summary))
    return summary


def _train(start: runner.Start, link: Link) -> dict:
    config, path = start.config, start.path
    xla_cache.enable_xla_cache()
    report_fault = partial(_log_fault, path, start.console)
    if config.data.name == NODES:
        server = _handshake_server(start, link, report_fault)
    else:
        exp = experiment(config, path)
        limits = partition_limits(exp, config.wire.bound, config.privacy.unit)
        context = secret_keys.round_contexts(config, path)
        server = Server(exp, link, report_fault, limits, context)
        run_summary.partition(server.exp, path, start.console)
    exp = server.exp
    start.claim_folder(exp.dataset.tokens)
    records.write_json(path / run_folder.NODES, {"clients": "nodes"})
    state = initial_state(exp, config.seed, server.run, config.eval_every)
    stats, store = run_summary.CompileStats(0.0, 0), ClientStore(exp, server.run)
    run = runner.Run(start, exp, store, state, stats, server.context)
    (summary,) = train_rounds([run], server)
    return summary


def _handshake_server(
    start: runner.Start, link: Link, report_fault: Callable[[LostMessage], None]
) -> Server:
    """Returns a server of nodes with private data, after the handshake."""
    config, path = start.config, start.path
    handshake = HandshakeLink(link, config, path, report_fault)
    exp = experiment(config, data=handshake.server_data())
    limits = schema_limits(handshake.schema, config.wire.bound)
    context = secret_keys.round_contexts(config, path)
    server = Server(exp, handshake, report_fault, limits, context)

    def add_late_clients():
        test = handshake.server_data().partition.test
        partition = server.exp.partition._replace(test=test)
        server.exp = server.exp._replace(partition=partition)
        server.parser.limits = schema_limits(handshake.schema, config.wire.bound)

    handshake.on_join = add_late_clients
    for line in describe_schema(handshake.schema):
        say(start.console, line)
    return server


def _log_fault(path: Path, console: Console, fault: LostMessage):
    """Logs a fault to the file and the console."""
    records.append(path / FAULTS, fault._asdict())
    line = f"round {fault.round}, client {fault.client}, {fault.stage}: {fault.why}"
    say(console, line)


class PlainProgress(contextlib.AbstractContextManager):
    """Progress of a federation: one line per evaluation."""

    def __init__(self, total_rounds: int, start_round: int, console: Console):
        self._console = console

    def __exit__(self, *error):
        pass

    def round(self, r: int, seconds: float):
        """Prints nothing: only evaluations have a line."""

    def evaluated(self, record: Mapping):
        """Prints accuracies, number of participants and seconds of a round."""
        rules = record["rules"].items()
        accuracies = ", ".join(
            f"{rule} {scores['pooled']:.4f}" for rule, scores in rules
        )
        say(
            self._console,
            f"round {record['round']}: {accuracies}; {record['participants']} clients, "
            f"{record['seconds']:.1f} s",
        )
