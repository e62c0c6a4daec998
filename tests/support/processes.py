"""Waits for other processes."""

import time

LIMIT = 600.0  # seconds that a test waits for a process


def until(look, *processes):
    """Returns what `look` finds; fails if a process ends before, or after `LIMIT`."""
    end_at = time.monotonic() + LIMIT
    while True:
        ended = [p for p in processes if p.poll() is not None]
        if found := look():
            return found
        assert not ended, [p.communicate() for p in ended]
        assert time.monotonic() < end_at, "it takes too long"
        time.sleep(0.02)
