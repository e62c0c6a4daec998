"""Account of a node under privacy: each round of the run is answered once."""

import hashlib
from pathlib import Path

import ml_collections

from jaxproto.errors import UserError
from jaxproto.io import json_files
from jaxproto.io.owner_only import owner_only_folder
from jaxproto.storage import records
from jaxproto.wrappers.privacy import EXAMPLE, OFF

FILE = "answered.json"  # digest of the broadcast by round, in the folder of a node


def check_training(
    config: ml_collections.ConfigDict, path: Path, r: int, broadcast: bytes
):
    """Enters the broadcast of round `r`, from 0, into the account of a node.

    Raises:
      UserError: the run has no such round, the node has answered another broadcast of
        this round, or the account is damaged.
    """
    if config.privacy.unit == OFF:
        return
    if r not in range(config.rounds):
        raise UserError(
            f"round {r + 1} is refused: the run has {config.rounds} rounds, and "
            "epsilon counts no other."
        )
    file, digest = path / FILE, hashlib.sha256(broadcast).hexdigest()
    try:
        answered = json_files.read_json(file) or {}
    except json_files.Damaged as e:
        raise UserError(
            f"{file} is damaged ({e}): it says which rounds the node has answered. "
            "Start the federation anew in another folder."
        ) from e
    if answered.setdefault(str(int(r)), digest) != digest:
        raise UserError(
            f"a second, different broadcast of round {r + 1} is refused: two uploads "
            "with the same noise would give it away."
        )
    owner_only_folder(path)
    records.write_json(file, answered)


def check_evaluation(config: ml_collections.ConfigDict, rounds: int):
    """Raises UserError for an evaluation that the configuration does not ask for.

    Args:
      rounds: Rounds done.
    """
    due = rounds % config.eval_every == 0 or rounds == config.rounds
    if config.privacy.unit == EXAMPLE and not due:
        raise UserError(
            f"evaluation after round {rounds} is refused: eval_every is "
            f"{config.eval_every} and rounds is {config.rounds}."
        )
