"""FEMNIST and Shakespeare from the JSON files of LEAF.

Caldas et al., "LEAF: A Benchmark for Federated Settings", 2018,
https://arxiv.org/abs/1812.01097.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from jaxproto.core.types import PADDING, SPECIAL, UNKNOWN
from jaxproto.errors import UserError
from jaxproto.papers.data import archives

Parts = dict[str, tuple[np.ndarray, np.ndarray, np.ndarray]]  # split -> x, y, source


def leaf_users(
    files: archives.ArchiveFiles, folder: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the name and the examples of each user in LEAF's JSON files."""
    for match in files.matching(rf"data/{folder}/[^/]+\.json"):
        name = match[0]
        try:
            data = json.loads(files.read(name))["user_data"]
            users = [(u, {"x": own["x"], "y": own["y"]}) for u, own in data.items()]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UserError(
                f"{files.where}, file {name}, is none of LEAF's ({error!r}). It needs "
                "user_data with x and y of every user: make it again."
            ) from error
        yield from users


def read_leaf(files: archives.ArchiveFiles, inputs: Callable, label: Callable) -> Parts:
    """Reads the train and test parts that LEAF's scripts made, or the undivided data.

    Args:
      inputs: converts the inputs of a user to x [M, ...].
      label: converts the label of an example.
    """
    divided = any(name.startswith("data/train/") for name in files.names)
    folders = {"train": "train", "test": "test"} if divided else {"train": "all_data"}
    parts = {}
    for split, folder in folders.items():
        x: list[np.ndarray] = []
        y: list[int | str] = []
        users: list[str] = []
        for user, own in leaf_users(files, folder):
            if len(own["x"]) != len(own["y"]):
                raise UserError(
                    f"{files.where}: user {user} of data/{folder} has "
                    f"{len(own['x'])} inputs and {len(own['y'])} labels. Make it again."
                )
            if not own["y"]:
                continue
            try:
                x.append(inputs(own["x"]))
                y += map(label, own["y"])
            except (ValueError, TypeError) as error:
                raise UserError(
                    f"{files.where}: user {user} of data/{folder} has an example that "
                    f"is none of LEAF's ({error}). Make it again."
                ) from error
            users += [user] * len(own["y"])
        if x:
            parts[split] = np.concatenate(x), np.array(y), np.array(users)
    if "train" not in parts:
        raise UserError(
            f"{files.where}: no examples in data/train or data/all_data. Run LEAF's "
            "preprocess.sh, and give the folder that has data/ as --manual_dir."
        )
    return parts


def read_femnist(files: archives.ArchiveFiles) -> Parts:
    """Reads images of 28 x 28 pixels; LEAF's grey levels from 0 to 1 become uint8."""

    def images(x):
        grey = np.asarray(x, np.float32).reshape(-1, 28, 28)
        return np.rint(255 * np.clip(grey, 0, 1)).astype(np.uint8)

    return read_leaf(files, images, int)


LENGTH = 80  # characters of a text
# LEAF's characters, each a token; other characters are the unknown token
LETTERS = (
    "\n !\"&'(),-.0123456789:;>?ABCDEFGHIJKLMNOPQRSTUVWXYZ[]abcdefghijklmnopqrstuvwxyz}"
)
CHARACTERS = (*SPECIAL, *(f"U+{ord(letter):04X}" for letter in LETTERS))


def read_shakespeare(files: archives.ArchiveFiles) -> Parts:
    """Reads texts of 80 characters as tokens; the label is the next character."""
    number = {letter: i + len(SPECIAL) for i, letter in enumerate(LETTERS)}

    def tokens(x):
        rows = [[number.get(c, UNKNOWN) for c in text[:LENGTH]] for text in x]
        padded = [row + [PADDING] * (LENGTH - len(row)) for row in rows]
        return np.array(padded, np.uint8)

    return read_leaf(files, tokens, lambda letter: f"U+{ord(letter):04X}")
