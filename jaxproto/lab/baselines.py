"""Baselines of a run: other methods on the same clients, with the same training."""

from collections.abc import Callable, Sequence
from pathlib import Path

import ml_collections
from rich.console import Console

from jaxproto import config, models
from jaxproto.config import presets
from jaxproto.errors import UserError, choose_from
from jaxproto.experiment.display_names import display_name
from jaxproto.methods import FIRST, METHODS, REFERENCE
from jaxproto.storage.default_workdir import default_workdir
from jaxproto.summary import finding, table_formats

Train = Callable[[ml_collections.ConfigDict, Path, Console | None], dict]


def preset_of(run: ml_collections.ConfigDict) -> str:
    """Returns the preset with the data set of a configuration, or `neutral`."""
    same = (
        name
        for name, fields in presets.DATASETS.items()
        if fields.get("data.name") == run.data.name
    )
    return next(same, "neutral")


def baseline(run: ml_collections.ConfigDict, name: str) -> ml_collections.ConfigDict:
    """Returns the configuration of another method on the clients of a run.

    The method has its own values on the data set for the fields `method.`, and those of
    the run for all others. A method that averages networks has the network of its
    preset where the run has several.
    """
    choose_from("method", name, METHODS)
    made = config.experiment(name, preset_of(run))
    own = {"name", *presets.RUN_FIELDS.get(name, {})}
    several = len(models.group_members(run.model.group)) > 1
    if several and len(models.group_members(made.model.group)) == 1:
        own.add("model.group")
    fields = config.flatten(run)
    shared = {k for k in fields if not k.startswith("method.")} - own
    config.apply_fields(made, {k: fields[k] for k in shared})
    return made


def folder(made: ml_collections.ConfigDict, path: str) -> Path:
    """Returns the folder of a baseline, beside that of the run if it is given."""
    if path:
        return Path(path).with_name(f"{Path(path).name}-{made.name}")
    return default_workdir(made, config.experiment(made.name, preset_of(made)))


def run_beside(
    run: ml_collections.ConfigDict,
    workdir: Path,
    names: Sequence[str],
    path: str,
    train: Train,
    say: Callable[[str], object],
) -> dict:
    """Trains the baselines and then the run; prints what the run shows beside them.

    Args:
      run: configuration of the run.
      workdir: folder of the run.
      names: methods.
      path: the folder that the user has named, or "".
      train: trains a configuration in a folder; a console shows the progress.
      say: prints a line.

    Returns:
      The summary of the run.

    Raises:
      UserError: before anything trains, if a baseline does not fit.
    """
    if run.method.name in names:
        raise UserError(f"{run.method.name} is the run itself: leave it out.")
    made = [baseline(run, name) for name in dict.fromkeys(names)]
    for c in made:
        config.check(c)
    runs, notes = {}, []
    for c in made:
        title, home = display_name(config.flatten(c)), folder(c, path)
        if c.model.group != run.model.group:
            notes.append(f"{title} trains one network, {c.model.group}, on all clients")
        say(f"baseline {title}, on the same clients: {home}")
        runs[title] = train(c, home, Console(quiet=True))
    own = display_name(config.flatten(run))
    runs[own] = train(run, workdir, None)
    view = finding.table(runs, runs[own]["commonest_class"], tuple(notes))
    say("\n" + table_formats.render(view))
    first = display_name(config.flatten(made[0]))
    say(finding.sentence(runs, own, first))
    return runs[own]


def next_names(names: Sequence[str], own: str) -> list[str]:
    """Returns the baselines to try next; none if these are more than local training."""
    return [n for n in FIRST if n != own] if [*names] == [REFERENCE] else []
