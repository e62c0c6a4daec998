"""How a run ends: its summary and pictures, or why it has diverged."""

from collections.abc import Mapping
from pathlib import Path

from jaxproto import config as config_
from jaxproto.experiment import build, display_names
from jaxproto.experiment.cohorts import NODES
from jaxproto.storage import checkpoint, records
from jaxproto.storage.run_folder import SUMMARY, RunFolder
from jaxproto.storage.status import Status
from jaxproto.summary import pictures
from jaxproto.summary import run_summary as summaries
from jaxproto.training import multihost
from jaxproto.training.checkpointing import say
from jaxproto.training.programs import State
from jaxproto.training.rounds import Diverged
from jaxproto.training.run_context import Run


def diverged(run: Run, error: Diverged) -> dict:
    """How a run ended that has diverged, with the way out."""
    reason = f"{error} {_way_out(run.path)}"
    say(run.console, f"diverged: {reason}")
    return {"status": Status.DIVERGED.value, "reason": reason}


def _way_out(path: Path) -> str:
    directory = path / "checkpoints"
    rounds = checkpoint.rounds(directory)
    last = f"{rounds[-1]} stays in {directory}" if rounds else ""
    kept = f"The checkpoint of round {last}" if rounds else ""
    return (
        f"{kept or 'No round was saved before it'}; in another folder, a smaller "
        "optimizer.learning_rate or optimizer.clip_norm may help."
    )


def ended(run: Run, state: State, status: Mapping) -> dict:
    """Writes pictures and `summary.json`; returns the summary."""
    state = run.work.store.gather_state(state)
    return multihost.agreed(lambda: _ended(run, state, status))


def _ended(run: Run, state: State, status: Mapping) -> dict:
    found = RunFolder.at(run.path).records
    made = summaries.summary(run.config, run.work.exp, found, run.compiled, status)
    summary = {k: v for k, v in made.items() if k not in run.unknown}
    if Status(status["status"]).ok and run.work.exp.store != NODES:
        _draw(run, state)
    records.write_json(run.path / SUMMARY, summary)
    run.told.end(records.plain(summary))
    return summary


def _draw(run: Run, state: State):
    exp = run.work.exp
    alone = exp.layout is None
    examples = run.work.examples if alone else build.examples(exp.dataset)
    trained = pictures.Trained(exp, examples, state.server, state.clients)
    name = display_names.method(config_.flat(run.config))
    pictures.draw(trained, run.path, run.console, name)
