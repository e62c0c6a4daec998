"""The callbacks of one run: told of events, switched off when they fail."""

import contextlib
import copy
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from jaxproto.callbacks.base import STOP, Callback, RunInfo, Stop
from jaxproto.errors import escape_unprintable, shorten
from jaxproto.storage.status import Status
from jaxproto.training import signals

CLOSE = 60.0  # seconds for all callbacks to end in


class CallbackList:
    """Told of the run by its loop; what they answer is in `stop`."""

    def __init__(self, callbacks: Sequence[Callback], console: Console):
        """Has told nothing yet."""
        self._left, self._console = list(callbacks), console
        self._lock, self._ended = threading.Lock(), False
        self._round = 0
        self.stop: Stop | None = None

    @contextlib.contextmanager
    def running(self, run_info: RunInfo) -> Iterator[None]:
        """Tells of the start, and of the end if an error or a signal is the end."""
        self._round = run_info.round
        self.notify("on_start", run_info)
        try:
            with signals.close_on_exit(lambda: self.end(self._broken("interrupted"))):
                yield
        except (KeyboardInterrupt, signals.StoppedBySignal) as e:
            self.end(self._broken("interrupted", f"{e}"))
            raise
        except BaseException as e:
            self.end(self._broken("failed", f"{e}"))
            raise

    def _broken(self, status: str, reason: str = "") -> dict:
        return {"status": status, "reason": reason, "rounds": self._round}

    def round(self, r: int, seconds: float, summary: Mapping):
        """Round `r` is done, the first is 1."""
        self._round = r
        self.notify("on_round", {"round": r, "seconds": seconds, **summary})

    def notify(self, event: str, *what: Any):
        """Tells all; one that raises an error hears of nothing more."""
        for callback in [] if self._ended else list(self._left):
            try:
                heard = getattr(callback, event, None)
                answer = heard and heard(*copy.deepcopy(what))
                if event in ("on_start", "on_evaluation"):
                    self._heed(answer)
            except Exception as e:
                self._left.remove(callback)
                self._say(f"{name(callback)} is switched off: {_why(event, e)}")

    def _heed(self, answer: Any):
        request = Stop() if answer == STOP else answer
        if isinstance(request, Stop) and self.stop is None:
            self.stop = request

    def status(self, config) -> dict:
        """How a run ended that went well: `stop`, unless it had all its rounds."""
        if self.stop is None or self._round >= config.rounds:
            return {"status": Status.FINISHED.value}
        reason = f"round {self._round}: {self.stop.reason}"
        self._say(f"{Status.STOPPED_EARLY}: {reason}")
        by = config.early_stopping.to_dict()
        return {
            "status": Status.STOPPED_EARLY.value,
            "reason": reason,
            "early_stopping": by,
        }

    def end(self, summary: Mapping):
        """Tells of the end, once; waits for all together `CLOSE` seconds at most."""
        with self._lock:
            if self._ended:
                return
            self._ended = True
        threads = [
            (callback, threading.Thread(target=self._end, args=[callback, summary]))
            for callback in self._left
        ]
        until = time.monotonic() + CLOSE
        for _, thread in threads:
            thread.daemon = True
            thread.start()
        for callback, thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                self._say(f"{name(callback)} is left behind: it does not end")

    def _end(self, callback: Callback, summary: Mapping):
        try:
            heard = getattr(callback, "on_end", None)
            if heard is not None:
                heard(copy.deepcopy(dict(summary)))
        except Exception as e:
            self._say(f"{name(callback)} has failed: {_why('on_end', e)}")

    def _say(self, text: str):
        self._console.print(
            escape_unprintable(text), markup=False, highlight=False, soft_wrap=True
        )


def name(callback: Callback) -> str:
    """What messages call a callback."""
    return f"callback {type(callback).__name__}"


def _why(event: str, error: Exception) -> str:
    text = shorten(" ".join(str(error).split()))[1:-1]
    return f"{event}: {type(error).__name__}: {text}"
