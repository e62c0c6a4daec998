"""Trial of cached programs: one that cannot be compiled is made anew.

A program that was damaged before its checksum was computed can raise an error in XLA,
or crash the process. So a program has a locked mark beside its file while it is
compiled. A mark without its lock is that of a process that has died.
"""

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

from jaxproto.io import atomic
from jaxproto.storage import file_lock

_Trial = tuple[list[Path], contextlib.ExitStack]  # loaded files, and their marks
_trial: ContextVar[_Trial | None] = ContextVar("trial", default=None)


@contextlib.contextmanager
def trial() -> Iterator[list[Path]]:
    """Yields the files of programs that this thread loads until the block ends."""
    files, marks = list[Path](), contextlib.ExitStack()
    token = _trial.set((files, marks))
    try:
        with marks:
            yield files
    finally:
        _trial.reset(token)


def has_survived(file: Path) -> bool:
    """Marks a program until the trial ends; returns False if its compiler has died."""
    if (current := _trial.get()) is None:
        return True
    files, marks = current
    files.append(file)
    mark = file.with_name(f"{file.name}.trial")
    try:
        opened = marks.enter_context(mark.open("a+b"))
        dead = marks.enter_context(file_lock.locked(opened))
        marks.enter_context(atomic.in_progress(mark))  # signals remove it
    except (OSError, file_lock.Held):  # no room, or another process compiles it now
        return True
    marks.callback(mark.unlink, missing_ok=True)
    return not dead
