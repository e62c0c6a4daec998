"""What a run's numbers follow from besides its configuration: `provenance.json`.

The file has a list `history`. Its first entry is that of the first start. A later start
with other values adds an entry, with the round after which it continues:

    {"history": [{"after_round": 0, "sections": {"code": {"method 'mine'": "5d"}}}]}

A run is compared with the last entry, in the names that both have. A run without the
file, of an older version, is compared with nothing.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import ml_collections

from jaxproto.config import user_code
from jaxproto.core import jax_settings
from jaxproto.errors import UserError
from jaxproto.storage import checkpoint, records
from jaxproto.storage.run_folder import PROVENANCE, RunFolder

Value = str | bool | int | float | None
Sections = dict[str, dict[str, Value]]  # section -> name -> value

CODE, JAX = "code", "jax"


class Wording(NamedTuple):
    """Words of the error about a section that differs."""

    run: str  # clause after "holds a run"
    change: str  # of one name, with its values there and here
    way_out: str


WORDINGS = {
    CODE: Wording(
        "of other code",
        "{name} has changed since",
        "or --same_code (same_code=True) to go on with the new code",
    ),
    JAX: Wording(
        "with other settings of JAX",
        "{name} was {there} and is {here}",
        "or set what the run began with",
    ),
}


def current(config: ml_collections.ConfigDict) -> Sections:
    """Returns the sections of this process, for a run of a configuration."""
    return {CODE: {**user_code.digests(config)}, JAX: {**jax_settings.recorded()}}


def differences(run: RunFolder, now: Mapping) -> dict[str, list[str]]:
    """Returns a clause for each name whose value differs, by section."""
    there = run.provenance[-1]["sections"] if run.provenance else {}
    return {
        section: [
            WORDINGS[section].change.format(name=name, there=old[name], here=value)
            for name, value in values.items()
            if old.get(name, value) != value
        ]
        for section, values in now.items()
        for old in [there.get(section, {})]
    }


def code_changes(path: Path, config: ml_collections.ConfigDict) -> list[str]:
    """Returns a clause per entry of the user that differs from the run in a folder."""
    run = RunFolder.at(path)
    return differences(run, current(config))[CODE] if run.provenance else []


def loaded_changes(run: RunFolder, config: ml_collections.ConfigDict) -> list[str]:
    """Returns a sentence for each value of a loaded run that differs here."""
    changes = differences(run, current(config)) if run.provenance else {}
    return [
        f"{run.path} is a run {WORDINGS[section].run}: {clause}."
        for section, clauses in changes.items()
        for clause in clauses
    ]


def check(run: RunFolder, config: ml_collections.ConfigDict, same_code: bool = False):
    """Raises UserError if a run has other values.

    Args:
      same_code: whether other code of the user is allowed.
    """
    if not run.provenance:
        return
    for section, clauses in differences(run, current(config)).items():
        if clauses and not (same_code and section == CODE):
            wording = WORDINGS[section]
            raise UserError(
                f"{run.path} holds a run {wording.run}: {'; '.join(clauses)}. Nothing "
                f"was changed. Choose another --workdir, {wording.way_out}."
            )


def record(path: Path, config: ml_collections.ConfigDict):
    """Writes `provenance.json`, or adds an entry to it where a value differs."""
    run, now = RunFolder.at(path), current(config)
    history = run.provenance if run.config else []  # else of a start that was killed
    if history and history[-1]["sections"] == now:
        return
    rounds = checkpoint.rounds(path / "checkpoints")
    entry = {"after_round": max(rounds, default=0), "sections": now}
    records.write_json(path / PROVENANCE, {"history": [*history, entry]})
