"""Dispatch of run events to callbacks; disables callbacks that raise or hang."""

import contextlib
import contextvars
import copy
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from rich.console import Console

from jaxproto.callbacks.base import STOP, Callback, RunInfo, Stop
from jaxproto.errors import escape_unprintable, shorten
from jaxproto.storage.status import Status
from jaxproto.summary.progress_lines import say
from jaxproto.training import signals

EVENT = 120.0  # seconds that a callback may take for an event
CLOSE = 60.0  # seconds that `on_end` of all callbacks may take together


class CallbackList:
    """Callbacks of one run, and the first `stop` request that one of them returned."""

    def __init__(self, callbacks: Sequence[Callback], console: Console):
        self._active, self._console = list(map(_Thread, callbacks)), console
        self._lock, self._ended = threading.Lock(), False
        self._round = 0
        self.stop: Stop | None = None

    @contextlib.contextmanager
    def running(self, run_info: RunInfo) -> Iterator[None]:
        """Notifies of the start, and of the end after an error or a signal."""
        self._round = run_info.round
        self.notify("on_start", run_info)
        try:
            with signals.close_on_exit(lambda: self.end(self._summary("interrupted"))):
                yield
        except (KeyboardInterrupt, signals.StoppedBySignal) as e:
            self.end(self._summary("interrupted", f"{e}"))
            raise
        except BaseException as e:
            self.end(self._summary("failed", f"{e}"))
            raise

    def _summary(self, status: str, reason: str = "") -> dict:
        return {"status": status, "reason": reason, "rounds": self._round}

    def round(self, r: int, seconds: float, summary: Mapping):
        """Notifies of the end of round `r`, from 1."""
        self._round = r
        self.notify("on_round", {"round": r, "seconds": seconds, **summary})

    def notify(self, event: str, *args: Any):
        """Calls the event of every callback; disables one that raises or hangs."""
        for thread in [] if self._ended else list(self._active):
            try:
                answer = thread.call(event, *args)
                if event in ("on_start", "on_evaluation"):
                    self._store_stop(answer)
            except Exception as e:
                self._active.remove(thread)
                thread.close()
                self._print(f"{thread.name} is switched off: {_describe(event, e)}")

    def _store_stop(self, answer: Any):
        request = Stop() if answer == STOP else answer
        if isinstance(request, Stop) and self.stop is None:
            self.stop = request

    def status(self, config) -> dict:
        """Returns the status of a run that ended without an error."""
        if self.stop is None or self._round >= config.rounds:
            return {"status": Status.FINISHED.value}
        reason = f"round {self._round}: {self.stop.reason}"
        self._print(f"{Status.STOPPED_EARLY}: {reason}")
        rule = config.early_stopping.to_dict()
        status = {"status": Status.STOPPED_EARLY.value, "reason": reason}
        return status | {"early_stopping": rule}

    def end(self, summary: Mapping):
        """Notifies of the end once; waits at most `CLOSE` seconds for all callbacks."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
        deadline = time.monotonic() + CLOSE
        answers = [(t, t.submit("on_end", dict(summary))) for t in self._active]
        for thread, answer in answers:
            thread.close()
            try:
                answer.result(max(0.0, deadline - time.monotonic()))
            except Exception as e:
                if answer.done():
                    self._print(f"{thread.name} has failed: {_describe('on_end', e)}")
                else:
                    self._print(f"{thread.name} is left behind: it does not end")

    def _print(self, text: str):
        say(self._console, escape_unprintable(text))


class _Thread:
    """Thread that runs all handlers of one callback, which may block."""

    def __init__(self, callback: Callback):
        self.name = f"callback {type(callback).__name__}"
        self._callback = callback
        self._calls = queue.SimpleQueue[Callable[[], None] | None]()
        run = contextvars.copy_context().run
        threading.Thread(target=run, args=[self._work], daemon=True).start()

    def _work(self):
        for call in iter(self._calls.get, None):
            call()

    def close(self):
        """Ends the thread after the queued calls."""
        self._calls.put(None)

    def submit(self, event: str, *args: Any) -> Future:
        """Queues an event with copies of its arguments; returns the pending answer."""
        handler, answer = getattr(self._callback, event, None), Future[Any]()

        def call():
            try:
                answer.set_result(handler and handler(*copies))
            except BaseException as e:
                answer.set_exception(e)

        copies = copy.deepcopy(args)
        self._calls.put(call)
        return answer

    def call(self, event: str, *args: Any) -> Any:
        """Returns the answer to an event.

        Raises:
          TimeoutError: the handler has not ended after `EVENT` seconds.
        """
        answer = self.submit(event, *args)
        try:
            return answer.result(EVENT)
        except TimeoutError as e:
            if answer.done():  # the handler's own error
                raise
            raise TimeoutError(f"takes over {EVENT:g} s") from e


def _describe(event: str, error: Exception) -> str:
    text = shorten(" ".join(str(error).split()))[1:-1]
    return f"{event}: {type(error).__name__}: {text}"
