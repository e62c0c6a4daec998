"""File locks between processes.

The file of a lock has the process id and host of the holder, so that a waiting process
can name it. The end of a process releases its locks.
"""

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

NOTICE = 5.0  # seconds until a waiting process names the holder
LIMIT = 60.0  # seconds until a waiting process goes on without the lock
POLL = 0.1  # seconds between two attempts


class Held(Exception):
    """Error of a lock that another process has; the message names the process."""


@contextlib.contextmanager
def locked(file: IO[bytes]) -> Iterator[str]:
    """Locks an open file, without waiting, until the block ends.

    A file system without locks, such as Drive on Colab, locks nothing. The file keeps
    its time of change.

    Yields:
      The process that died while it had the lock; "" if none did.

    Raises:
      Held: another process has the lock.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as e:
        holder = _holder(file)
        raise Held("another process" + f" ({holder})" * bool(holder)) from e
    except OSError:
        yield ""
        return
    try:
        dead = _holder(file)
        _write(file, f"{os.getpid()} on {socket.gethostname()}")
        yield dead
    finally:
        _write(file, "")


@contextlib.contextmanager
def exclusive_lock(
    path: Path, say: Callable[[str], object], why: str
) -> Iterator[None]:
    """Locks a file; after `LIMIT` seconds of waiting it goes on without the lock.

    If the file cannot be opened, it goes on at once.

    Args:
      say: function that prints a line.
      why: what the holder of the lock does, such as "writes the table".
    """
    begin, notice = time.monotonic(), NOTICE
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(stack.enter_context(path.open("a+b"))))
                break
            except OSError:
                break
            except Held as e:
                waited = time.monotonic() - begin
                if waited > LIMIT:
                    say(f"{e} still {why}: going on without waiting")
                    break
                if waited > notice:
                    say(f"waiting for {e}, which {why} (at most {LIMIT:g} s)")
                    notice = LIMIT
            stack.close()
            time.sleep(POLL)
        yield


def _holder(file: IO[bytes]) -> str:
    """Returns the holder of a lock that its file names; "" if none."""
    with contextlib.suppress(OSError):
        file.seek(0)
        return file.read(200).decode("utf8", "replace").strip()
    return ""


def _write(file: IO[bytes], holder: str):
    """Writes the holder into the file of a lock, or clears it."""
    with contextlib.suppress(OSError):  # a full disk
        status = os.fstat(file.fileno())
        file.truncate(0)
        os.write(file.fileno(), holder.encode())  # a buffer would fail again at the end
        os.utime(file.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
