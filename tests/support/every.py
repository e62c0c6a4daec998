"""Tests that check every case of a table, as one item that names all that fail."""

import traceback
from collections.abc import Callable, Iterable

import pytest


def check_every(cases: Iterable, check: Callable) -> None:
    """Calls `check(*case)` for all cases; fails with a line for each that failed."""
    failed, count = [], 0
    for case in cases:
        count += 1
        try:
            check(*(case if isinstance(case, tuple) else (case,)))
        except (Exception, pytest.fail.Exception) as e:
            at = traceback.extract_tb(e.__traceback__)[-1]
            where = f"{type(e).__name__} at {at.name}:{at.lineno}"
            failed.append(f"{case!s:.300}: {where}: {e}")
    assert count, "no cases"
    assert not failed, "\n".join(failed)


def every(cases: Iterable):
    """Decorator of a test of one case: makes a test of all of them."""

    def of_all(check):
        def test():
            check_every(cases, check)

        test.__name__, test.__qualname__ = check.__name__, check.__qualname__
        test.__doc__, test.__module__ = check.__doc__, check.__module__
        return test

    return of_all
