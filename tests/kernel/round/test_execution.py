"""Segments of a padded cohort: all the work, little waste."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jaxproto.round import execution


def waste(steps_K, segments):
    work = execution.padded_steps(segments)
    return 1 - sum(steps_K) / work if work else 0.0


@given(st.lists(st.integers(0, 300), min_size=1, max_size=40))
def test_segments_cover_every_step_once_and_more_of_them_never_waste_more(steps_K):
    shares, steps_K = [], sorted(steps_K, reverse=True)
    for most in (1, 2, 3, 4, 5, 40):
        segments = execution.plan_segments(steps_K, most)
        assert len(segments) <= most
        assert all(a.last == b.first for a, b in itertools.pairwise(segments))
        if segments:
            assert segments[0].first == 0 and segments[-1].last == max(steps_K)
        along_K = np.zeros(len(steps_K), int)  # steps that each row runs along for
        for s in segments:
            along_K[: s.clients] += s.last - s.first
        assert np.all(along_K >= steps_K)
        shares.append(waste(steps_K, segments))
    assert np.all(np.diff(shares) <= 1e-12)
    assert shares[-1] == pytest.approx(0)


def test_four_segments_waste_at_most_15_percent_at_dirichlet_01():
    """The sizes n_i of CIFAR-10, 20 clients, alpha 0.1 (`test_pfllib.py`)."""
    sizes = "1621 1814 1211 2080 5128 4264 1440 2622 2974 3236 1164 1964 5994 1527 "
    sizes += "3100 4325 4252 3175 5449 2660"
    steps = [int(0.75 * int(n)) // 32 for n in sizes.split()]
    everyone = sorted(steps, reverse=True)
    assert waste(everyone, execution.plan_segments(everyone)) <= 0.15
    assert waste(everyone, execution.plan_segments(everyone, 1)) > 0.4
    forms = execution.in_chunks(3), execution.in_chunks(2), execution.one_by_one()
    assert [form.steps([10, 5, 1]) for form in forms] == [30, 21, 16]
