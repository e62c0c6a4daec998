"""Folders and files of the user alone: what is read from them is run.

Whoever can write into a cache of programs decides what this process does. So folders
are made with mode 0700 and files with 0600, whatever the umask is, and what belongs to
another user, or can be written by others, is not used.
"""

import os
import stat
from pathlib import Path

OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotOwnedError(Exception):
    """Somebody else could have written this; the message says who and the way out."""


def owner_only_folder(path: Path):
    """Makes the folder, and parents that are missing, for the user alone.

    Raises:
      Refused: it is there, and others may have written into it.
      OSError: it cannot be made.
    """
    path = path.absolute()
    for part in [*reversed(path.parents), path]:
        if not part.exists():
            part.mkdir(mode=0o700, exist_ok=True)
            part.chmod(0o700)  # whatever the umask took away
    _check(path, path.stat(), "700")


def read_owner_only(path: Path) -> bytes:
    """The content of a file that nobody else can have written.

    Raises:
      Refused: somebody else can have.
      OSError: it cannot be read.
    """
    with path.open("rb") as file:
        _check(path, os.fstat(file.fileno()), "600")
        return file.read()


def _check(path: Path, status: os.stat_result, mode: str):
    if not hasattr(os, "geteuid"):  # Windows: the user's folders are the user's
        return
    if status.st_uid != os.geteuid():
        raise NotOwnedError(
            f"{path} belongs to user {status.st_uid}, not to {os.geteuid()} who runs "
            "this: remove it"
        )
    if status.st_mode & OTHERS:
        raise NotOwnedError(
            f"{path} can be written by others (mode {stat.S_IMODE(status.st_mode):o}): "
            f"remove it, or chmod {mode} if nobody did"
        )
