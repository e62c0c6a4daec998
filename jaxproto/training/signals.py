"""Handling of Ctrl-C and SIGTERM: a process ends in one line, without partial files.

A separate thread receives both signals (`install_signal_handlers`), so it does not
matter what the main thread does: an import, a compilation, a round inside XLA, or a
destructor in which an exception would be lost. The thread ends the process with exit
code 130 or 143 and removes files in progress; files with their final names are complete
(`jaxproto/io/atomic.py`).

Two things come first. A checkpoint that is being saved is finished. SIGTERM, which
schedulers send some time before they kill, waits until the running round is saved, if
that is soon (`graceful_rounds`). A second signal ends the process at once.

Without `install_signal_handlers`, as in a notebook, signals keep their handlers. The
module imports only the standard library, because it is loaded before all others.
"""

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import NoReturn

GRACE = 20.0  # seconds; SLURM and Kubernetes kill 30 seconds after SIGTERM
CLOSE = 5.0  # seconds to close open resources such as event files
WORDS = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated"}


class StoppedBySignal(Exception):
    """Exception after SIGTERM, when the running round is saved."""


class _Watch:
    """Signals that the process has received, and work that delays its end."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.hint = ""  # how to resume, for the last line
        self.received: int | None = None  # the last signal
        self.waits: int | None = None  # signal that takes effect after a save
        self.saves = 0  # checkpoints that are being written, of several runs
        self.runs = 0  # runs that train rounds
        self.grace = 0.0  # seconds that the running rounds may take after SIGTERM
        self.closes: list[Callable[[], None]] = []  # called before the end

    def receive(self, number: int):
        """Ends the process, now or soon."""
        with self.lock:
            again, self.received = self.received is not None, number
            if not again and number == signal.SIGTERM and self.grace > 0:
                timer = threading.Timer(self.grace, self.end, [number])
                timer.daemon = True
                timer.start()
            elif not again and self.saves:
                self.waits = number
            else:
                self.end(number)

    def end(self, number: int) -> NoReturn:
        """Closes resources and ends the process."""
        say(number, self.hint)
        self._close()
        if atomic := sys.modules.get("jaxproto.io.atomic"):  # else no file is written
            atomic.remove_in_progress()
        os._exit(128 + number)

    def _close(self):
        """Calls `closes` for at most `CLOSE` seconds, or until a second signal."""
        threads = [threading.Thread(target=f, daemon=True) for f in self.closes]
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + CLOSE
        while threads and time.monotonic() < deadline and not _signal_pending():
            threads[0].join(0.05)
            threads = [thread for thread in threads if thread.is_alive()]


_process = _Watch()


def _signal_pending() -> bool:
    """Returns whether a signal waits in the pipe."""
    return bool(_read_ends) and bool(select.select(_read_ends, [], [], 0)[0])


def say(number: int, hint: str):
    """Prints one line on a new line of the terminal, and shows the cursor."""
    flushing = threading.Thread(target=_flush, daemon=True)
    flushing.start()
    flushing.join(1)  # a pipe without a reader would block for ever
    line = ": ".join(filter(None, [WORDS[signal.Signals(number)], hint])) + "\n"
    with contextlib.suppress(OSError):
        if os.isatty(1):
            os.write(1, b"\r\x1b[2K\x1b[?25h")
        os.write(2, line.encode())


def _flush():
    with contextlib.suppress(Exception):
        sys.stdout.flush()


def install_signal_handlers():
    """Ends this process at Ctrl-C and SIGTERM from now on; for programs, not libraries.

    An ignored signal stays ignored, such as Ctrl-C in the background of a shell.
    """
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    _write_ends.append(write_end)
    _read_ends.append(read_end)
    # a child process has its own signals
    os.register_at_fork(after_in_child=remove_signal_handlers)
    threading.Thread(target=_listen, args=[read_end], daemon=True).start()
    for number in WORDS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: None)  # the thread handles it


_write_ends: list[int] = []  # of the pipe of signals; empty without handlers
_read_ends: list[int] = []


def _listen(read_end: int):
    while byte := os.read(read_end, 1):
        if byte[0] in WORDS:
            _process.receive(byte[0])
    _read_ends.remove(read_end)
    os.close(read_end)


def remove_signal_handlers():
    """Restores Python's handlers of Ctrl-C and SIGTERM."""
    if _write_ends:
        signal.set_wakeup_fd(-1)
        os.close(_write_ends.pop())
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def set_exit_hint(hint: str):
    """Sets the hint how to resume, for the last line of the process."""
    _process.hint = hint


def exit_hint() -> str:
    """Returns the hint of `set_exit_hint`."""
    return _process.hint


def exit_after_stop(stopped: StoppedBySignal) -> NoReturn:
    """Ends the process after SIGTERM, when the running round is saved."""
    set_exit_hint(str(stopped))
    _process.end(signal.SIGTERM)


@contextlib.contextmanager
def graceful_rounds(grace: float) -> Iterator[Callable[[], bool]]:
    """Lets the running round of training finish after SIGTERM.

    Args:
      grace: Seconds that the round may take; 0 ends it at once.

    Yields:
      A function to call after every round: whether to save and raise StoppedBySignal.
    """
    with _process.lock:
        _process.runs += 1
        _process.grace = grace
    try:
        yield lambda: _process.received is not None
    finally:
        with _process.lock:
            _process.runs -= 1
            _process.grace = grace if _process.runs else 0.0


@contextlib.contextmanager
def close_on_exit(close: Callable[[], None]) -> Iterator[None]:
    """Calls `close`, which must not raise, if a signal ends the process meanwhile."""
    _process.closes.append(close)
    try:
        yield
    finally:
        _process.closes.remove(close)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Delays the first Ctrl-C or SIGTERM until the end of the block."""
    if not _write_ends:
        with _delay_interrupt():
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
def _delay_interrupt():
    """Delays Ctrl-C in a process without signal handlers, such as a notebook."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives it
        return
    pressed = []
    handler = signal.signal(signal.SIGINT, lambda *_: pressed.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler or signal.default_int_handler)
        if pressed:
            signal.raise_signal(signal.SIGINT)
