"""The server's folder: that of a run of the simulator, but for what clients keep.

It has the same files, so that `compare`, pictures of records and `jaxproto.load` read
it, and beside them `nodes.json`, which says that the clients are on nodes, and
`faults.jsonl`, a line for each message that did not come to its end. A checkpoint is
written after every round. The same call goes on after the last one.
"""

import contextlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import ml_collections
from rich.console import Console

from jaxproto import config as config_
from jaxproto.data.registry import NODES
from jaxproto.experiment import build
from jaxproto.flower.handshake import HandshakeLink, describe_schema
from jaxproto.flower.protocol import experiment
from jaxproto.flower.server import Link, LostMessage, Server
from jaxproto.storage import default_workdir, records, run_folder
from jaxproto.storage import workdir as folder
from jaxproto.summary import reference_accuracy
from jaxproto.summary import run_summary as summaries
from jaxproto.training import privacy_ledger, runner, xla_cache
from jaxproto.training.client_store import DeviceStore
from jaxproto.training.loop import train_rounds
from jaxproto.training.progress import result_table
from jaxproto.training.rounds import RoundEnvironment

FAULTS = "faults.jsonl"


def run_server(
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
    path = Path(workdir or default_workdir.default_workdir(config))
    with contextlib.ExitStack() as stack:
        claimed = stack.enter_context(folder.lock_workdir(path))
        start = runner.Start(
            config, path, console, grace=0.0, lock=claimed, progress=plain_progress
        )
        summary = runner.finished_summary(start)
        if summary is None:
            summary = _trained(start, link)
    console.print(result_table(summary))
    return summary


def _trained(start: runner.Start, link: Link) -> dict:
    config, path = start.config, start.path
    xla_cache.enable_xla_cache()
    fault = partial(_noted, path, start.console)
    if config.data.name == NODES:
        server = _agreed(start, link, fault)
    else:
        server = Server(experiment(config, path), config.seed, link, fault)
        summaries.partition(server.exp, path, start.console)
    exp = server.exp
    folder.save_tokens(path, exp.dataset.tokens)
    due = folder.expected_rounds(path, config)
    folder.save_config(path, config)
    records.write_json(path / run_folder.NODES, {"clients": "nodes"})
    start.lock.keep()
    run = runner.Run(
        config=config,
        path=path,
        work=RoundEnvironment(
            exp,
            build.examples(exp.dataset),
            server.run,
            config.seed,
            DeviceStore(exp, server.run),
        ),
        compile_stats=summaries.CompileStats(0.0, 0),
        console=start.console,
        grace=start.grace,
        progress=start.progress,
        callbacks=start.callback_list(),
        privacy=privacy_ledger.privacy_ledger(config, exp),
        # which ask for examples by class:
        omitted=reference_accuracy.ENTRIES if config.data.name == NODES else (),
    )
    first, state = runner.resume(run, server.begun(config.eval_every), due)
    (summary,) = train_rounds([run], server, first, [state])
    return summary


def _agreed(
    start: runner.Start, link: Link, fault: Callable[[LostMessage], None]
) -> Server:
    """The server of nodes with data of their own."""
    config, path = start.config, start.path
    agreeing = HandshakeLink(link, config, path, fault)
    exp = experiment(config, given=agreeing.given())
    server = Server(exp, config.seed, agreeing, fault)

    def grown():
        tests = agreeing.given().partition.test
        server.exp = server.exp._replace(
            partition=server.exp.partition._replace(test=tests)
        )

    agreeing.grown = grown
    for line in describe_schema(agreeing.made):
        start.console.print(line, markup=False, highlight=False, soft_wrap=True)
    return server


def _noted(path: Path, console: Console, fault: LostMessage):
    """Writes and prints a fault."""
    records.append(path / FAULTS, fault._asdict())
    line = f"round {fault.round}, client {fault.client}, {fault.stage}: {fault.why}"
    console.print(line, markup=False, highlight=False, soft_wrap=True)


class PlainProgress:
    """The rounds of a federation, a line for each evaluation; as `Progress`."""

    def __init__(self, console: Console):
        """Shows nothing yet."""
        self._console = console

    def round(self, r: int, seconds: float):
        """Says nothing of a round alone."""

    def evaluated(self, record: Mapping):
        """Prints accuracies, participants and seconds of a round."""
        rules = record["rules"].items()
        each = ", ".join(f"{rule} {of['pooled']:.4f}" for rule, of in rules)
        self._console.print(
            f"round {record['round']}: {each}; {record['participants']} clients, "
            f"{record['seconds']:.1f} s",
            highlight=False,
            soft_wrap=True,
        )


@contextlib.contextmanager
def plain_progress(total_rounds: int, start_round: int, console: Console):
    """Shows the rounds of a federation; as `training.progress.progress`."""
    del total_rounds, start_round
    yield PlainProgress(console)
