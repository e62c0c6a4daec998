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

from jaxproto.callbacks.base import MAY_STOP, STOP, Callback, RunInfo, Stop
from jaxproto.callbacks.digest import callback_digest
from jaxproto.errors import escape_unprintable, message_of, shorten
from jaxproto.storage.status import Status
from jaxproto.summary.progress_lines import say
from jaxproto.training import signals

EVENT = 120.0  # seconds that a callback may take for an event
CLOSE = 60.0  # seconds that `on_end` of all callbacks may take together


class CallbackList:
    """Callbacks of one run, and the first `stop` request that one of them returned."""

    def __init__(
        self,
        callbacks: Sequence[Callback],
        console: Console,
        rule: Callback | None = None,
    ):
        """Starts threads; `rule`, the configured early stopping, answers first."""
        self._active = [_Thread(c, callback_digest(c)) for c in callbacks]
        self._active[:0] = [_Thread(rule)] if rule else []
        self._console = console
        self._lock, self._ended = threading.Lock(), False
        self._round = 0
        self.stop: Stop | None = None
        self._stopped_by: dict[str, str] = {}  # unless it is the rule

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
                request = thread.call(event, *args)
                if request and not self.stop:
                    self.stop, self._stopped_by = request, thread.identity
            except HandlerError as e:
                self._active.remove(thread)
                thread.close()
                self._print(f"{thread.name} is switched off: {e}")

    def status(self, config) -> dict:
        """Returns the status of a run that ended without an error."""
        if self.stop is None or self._round >= config.rounds:
            return {"status": Status.FINISHED.value}
        reason = f"round {self._round}: {self.stop.reason}"
        self._print(f"{Status.STOPPED_EARLY}: {reason}")
        rule = config.early_stopping.to_dict()
        status = {"status": Status.STOPPED_EARLY.value, "reason": reason}
        by = self._stopped_by and {**self._stopped_by, "rounds": config.rounds}
        return status | {"early_stopping": rule} | ({"stopped_by": by} if by else {})

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
            except HandlerError as e:
                self._print(f"{thread.name} has failed: {e}")
            except TimeoutError:
                self._print(f"{thread.name} is left behind: it does not end")

    def _print(self, text: str):
        say(self._console, escape_unprintable(text))


class HandlerError(Exception):
    """Error of a callback's handler, or an answer that the run cannot use."""


class _Thread:
    """Thread that runs all handlers of one callback, which may block."""

    def __init__(self, callback: Callback, digest: str = ""):
        kind = type(callback).__name__
        self.name = f"callback {kind}"
        self.identity = {"callback": kind, "digest": digest} if digest else {}
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

    def submit(self, event: str, *args: Any) -> Future[Stop | None]:
        """Queues an event with copies of its arguments; returns the pending answer."""
        answer, copies = Future[Stop | None](), copy.deepcopy(args)

        def call():
            try:
                handler = getattr(self._callback, event, None)
                answer.set_result(_request(event, handler and handler(*copies)))
            except HandlerError as e:
                answer.set_exception(e)
            except BaseException as e:  # sys.exit and others, which would end the run
                answer.set_exception(HandlerError(_describe(event, e)))

        self._calls.put(call)
        return answer

    def call(self, event: str, *args: Any) -> Stop | None:
        """Returns the answer to an event.

        Raises:
          HandlerError: The handler fails, or has not ended after `EVENT` seconds.
        """
        try:
            return self.submit(event, *args).result(EVENT)
        except TimeoutError as e:
            slow = TimeoutError(f"takes over {EVENT:g} s")
            raise HandlerError(_describe(event, slow)) from e


def _request(event: str, answer: Any) -> Stop | None:
    """Returns the request of a handler's answer; raises HandlerError for others."""
    request = Stop() if isinstance(answer, str) and answer == STOP else answer
    if request is None or (event in MAY_STOP and isinstance(request, Stop)):
        return request
    raise HandlerError(
        f"{event} returns {shorten(answer)}, which has no effect; return None, or from "
        f"{' or '.join(MAY_STOP)} '{STOP}' or jaxproto.Stop(reason)"
    )


def _describe(event: str, error: BaseException) -> str:
    text = shorten(message_of(error))[1:-1]
    return f"{event}: {type(error).__name__}: {text}"
