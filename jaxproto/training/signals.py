"""Ctrl-C and SIGTERM: a process ends in one line, and nothing is half written.

A thread of its own hears of both (`install_signal_handlers`), so it does not matter
what the main thread is doing: an import, a compilation, a round inside XLA, a
destructor in which an exception would be lost. It ends the process with exit code 130
or 143 and takes away what was being written; what has its name already is whole
(`jaxproto/io/atomic.py`).

Two things come first: a checkpoint that is being saved is finished, and SIGTERM, which
schedulers send some time before they kill, waits until the round that is running has
been saved, if that is soon (`graceful_rounds`). A second signal ends the process at
once.

Without `install_signal_handlers`, as in a notebook, signals are left to whoever has
handlers for them. Only the standard library is imported here: this is loaded before all
others.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn

GRACE = 20.0  # seconds; SLURM and Kubernetes kill 30 seconds after SIGTERM
CLOSE = 5.0  # seconds for what is open when the process ends, such as event files
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class StoppedBySignal(Exception):
    """SIGTERM came, and the checkpoint of the round that was running is saved."""


class _Watch:
    """What the process was told, and what it is in the middle of."""

    def __init__(self) -> None:
        """Nothing was told."""
        self.lock = threading.Lock()
        self.after = ""  # what to know when it ends: how to go on
        self.told: int | None = None  # the first signal
        self.waits: int | None = None  # a signal that waits for the end of a save
        self.saves = 0  # checkpoints that are being written, of several runs at once
        self.runs = 0  # that train rounds
        self.grace = 0.0  # seconds that the rounds that are running may still take
        self.closes: list[Callable[[], None]] = []  # called before the end

    def hear(self, told: int):
        """Ends the process, or has it end soon."""
        with self.lock:
            again, self.told = self.told is not None, told
            if not again and told == signal.SIGTERM and self.grace > 0:
                timer = threading.Timer(self.grace, self.end, [told])
                timer.daemon = True
                timer.start()
            elif not again and self.saves:
                self.waits = told
            else:
                self.end(told)

    def end(self, told: int) -> NoReturn:
        """Does not return."""
        say(told, self.after)
        self._close()
        if atomic := sys.modules.get("jaxproto.io.atomic"):  # nothing is written before
            atomic.remove_in_progress()
        os._exit(128 + told)

    def _close(self):
        """Closes what is open, in `CLOSE` seconds or until a second signal."""
        left = [threading.Thread(target=f, daemon=True) for f in self.closes]
        for thread in left:
            thread.start()
        until = time.monotonic() + CLOSE
        while left and time.monotonic() < until and not _again():
            left[0].join(0.05)
            left = [thread for thread in left if thread.is_alive()]


_process = _Watch()


def _again() -> bool:
    """Whether a signal waits to be heard."""
    return bool(_listening) and bool(select.select(_listening, [], [], 0)[0])


def say(told: int, after: str):
    """One line, below what is shown already; the cursor comes back."""
    flushing = threading.Thread(target=_flush, daemon=True)
    flushing.start()
    flushing.join(1)  # a pipe that nobody reads would hold it for good
    line = ": ".join(filter(None, [WORDS[signal.Signals(told)], after])) + "\n"
    with contextlib.suppress(OSError):
        if os.isatty(1):
            os.write(1, b"\r\x1b[2K\x1b[?25h")
        os.write(2, line.encode())


def _flush():
    with contextlib.suppress(Exception):
        sys.stdout.flush()


def install_signal_handlers():
    """Ends this process at Ctrl-C and SIGTERM from now on; only for a process's main.

    A signal that is ignored, as Ctrl-C is in the background of a shell, stays so.
    """
    hears, tells = os.pipe()
    os.set_blocking(tells, False)
    signal.set_wakeup_fd(tells, warn_on_full_buffer=False)
    _watching.append(tells)
    _listening.append(hears)
    os.register_at_fork(
        after_in_child=remove_signal_handlers
    )  # its signals are not this process's
    threading.Thread(target=_listen, args=[hears], daemon=True).start()
    for told in WORDS:
        if signal.getsignal(told) is not signal.SIG_IGN:
            signal.signal(told, _nothing)


_watching: list[int] = []  # the end of the pipe that signals write to
_listening: list[int] = []  # the other end


def _nothing(told: int, frame: FrameType | None):
    """The thread that listens does it all."""


def _listen(hears: int):
    while heard := os.read(hears, 1):
        if heard[0] in WORDS:
            _process.hear(heard[0])
    _listening.remove(hears)
    os.close(hears)


def remove_signal_handlers():
    """Leaves Ctrl-C and SIGTERM to Python again: for who cleans up behind itself."""
    if _watching:
        signal.set_wakeup_fd(-1)
        os.close(_watching.pop())
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def set_exit_hint(after: str):
    """What the last line is to say of how to go on."""
    _process.after = after


def exit_hint() -> str:
    """What `set_exit_hint` was told."""
    return _process.after


def exit_after_stop(stopped: StoppedBySignal) -> NoReturn:
    """Ends the process after the round that SIGTERM was waiting for."""
    set_exit_hint(str(stopped))
    _process.end(signal.SIGTERM)


@contextlib.contextmanager
def graceful_rounds(grace: float) -> Iterator[Callable[[], bool]]:
    """Rounds of training, of which the running one may end when SIGTERM comes.

    Args:
      grace: seconds that it may still take; 0 ends it at once.

    Yields:
      Whether to save and raise Stopped; asked after every round.
    """
    with _process.lock:
        _process.runs += 1
        _process.grace = grace
    try:
        yield lambda: _process.told is not None
    finally:
        with _process.lock:
            _process.runs -= 1
            _process.grace = grace if _process.runs else 0.0


@contextlib.contextmanager
def close_on_exit(close: Callable[[], None]) -> Iterator[None]:
    """Calls `close`, which raises nothing, if a signal ends the process meanwhile."""
    _process.closes.append(close)
    try:
        yield
    finally:
        _process.closes.remove(close)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Holds Ctrl-C and SIGTERM back until the block has ended; a second one is not."""
    if not _watching:
        with _held_back():
            yield
        return
    with _process.lock:
        _process.saves += 1
    try:
        yield
    finally:
        with _process.lock:
            _process.saves -= 1
            if _process.waits is not None and not _process.saves:
                _process.end(_process.waits)


@contextlib.contextmanager
def _held_back():
    """The same for Ctrl-C in a process that is not watched, such as a notebook's."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread gets it
        return
    pressed = []
    before = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before or signal.default_int_handler)
        if pressed:
            signal.raise_signal(signal.SIGINT)
