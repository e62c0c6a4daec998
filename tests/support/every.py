"""One check for every case of a table, in one test."""

import traceback
from collections.abc import Callable, Iterable

import pytest


def check_every(cases: Iterable, check: Callable) -> None:
    """Calls `check(*case)` for all cases; fails with a line for each that failed."""
    failed, count = [], 0
    for count, case in enumerate(cases, 1):  # noqa: B007 (read below)
        try:
            check(*(case if isinstance(case, tuple) else (case,)))
        except (Exception, pytest.fail.Exception) as e:
            at = traceback.extract_tb(e.__traceback__)[-1]
            failed.append(f"{case}: {type(e).__name__} at {at.name}:{at.lineno}: {e}")
    assert count, "no cases"
    assert not failed, "\n".join(failed)
