"""Owner-only folders and files: cached programs are executed.

A user who can write into a cache of programs controls this process. So folders have
mode 0700 and files 0600, whatever the umask; those that belong to another user, or that
others can write, are refused.
"""

import os
import stat
from pathlib import Path

from jaxproto.errors import UserError
from jaxproto.io import atomic

OTHERS = stat.S_IWGRP | stat.S_IWOTH


class NotOwnedError(UserError):
    """Error of a file or folder that another user could have written."""


def owner_only_folder(path: Path):
    """Makes a folder and its missing parents, all with mode 0700.

    A folder that exists gets this mode, too.

    Raises:
      NotOwnedError: the folder exists, and others can write into it.
      OSError: the folder cannot be made.
    """
    path = path.absolute()
    for part in [*reversed(path.parents), path]:
        if not part.exists():
            part.mkdir(mode=0o700, exist_ok=True)
            part.chmod(0o700)  # whatever the umask
    _check(path, path.stat(), "700")
    path.chmod(0o700)
    parent = path.parent.stat()  # whose writers can replace this folder
    if not parent.st_mode & stat.S_ISVTX:
        _check(path.parent, parent, "755", stat.S_IWOTH, other_owner=0)


def read_owner_only(path: Path) -> bytes:
    """Reads a file that only the user can have written.

    Raises:
      NotOwnedError: another user could have written it.
      OSError: the file cannot be read.
    """
    with atomic.open_regular(path) as file:
        _check(path, os.fstat(file.fileno()), "600")
        return atomic.read_open(file, path)


def _check(
    path: Path,
    status: os.stat_result,
    mode: str,
    refused: int = OTHERS,
    other_owner: int = -1,
):
    """Raises NotOwnedError if another user owns a file, or may write it.

    Args:
      mode: that the message advises.
      refused: bits of permissions that the file must not have.
      other_owner: id of a user that may own the file, too; -1 is none.
    """
    if not hasattr(os, "geteuid"):  # Windows: the user's folders are the user's
        return
    if status.st_uid not in (os.geteuid(), other_owner):
        raise NotOwnedError(
            f"{path} belongs to user {status.st_uid}, not to {os.geteuid()} who runs "
            "this: remove it"
        )
    if status.st_mode & refused:
        raise NotOwnedError(
            f"{path} can be written by others (mode {stat.S_IMODE(status.st_mode):o}): "
            f"remove it, or chmod {mode} if nobody did"
        )
