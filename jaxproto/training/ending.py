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
from jaxproto.training.checkpointing import print_line
from jaxproto.training.programs import State
from jaxproto.training.rounds import Diverged
from jaxproto.training.run_context import RunContext


def diverged_status(run: RunContext, error: Diverged) -> dict:
    """How a run ended that has diverged, with the way out."""
    reason = f"{error} {_way_out(run.path)}"
    print_line(run.console, f"diverged: {reason}")
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


def finish_run(run: RunContext, state: State, status: Mapping) -> dict:
    """Writes pictures and `summary.json`; returns the summary."""
    state = run.work.store.gather_state(state)
    return multihost.broadcast_result(lambda: _ended(run, state, status))


def _ended(run: RunContext, state: State, status: Mapping) -> dict:
    records_read = RunFolder.at(run.path).records
    summary_fields = summaries.run_summary(
        run.config, run.work.exp, records_read, run.compiled, status
    )
    summary = {k: v for k, v in summary_fields.items() if k not in run.unknown}
    if Status(status["status"]).ok and run.work.exp.store != NODES:
        _draw(run, state)
    records.write_json(run.path / SUMMARY, summary)
    run.callbacks.end(records.to_json_values(summary))
    return summary


def _draw(run: RunContext, state: State):
    exp = run.work.exp
    alone = exp.layout is None
    examples = run.work.examples if alone else build.examples(exp.dataset)
    trained = pictures.TrainedFederation(exp, examples, state.server, state.clients)
    name = display_names.display_name(config_.flatten(run.config))
    pictures.draw_all(trained, run.path, run.console, name)
