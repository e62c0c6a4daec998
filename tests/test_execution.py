"""Segments of a padded cohort: all the work, little waste."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import toys
from support.every import check_every

from jaxproto import execution
from jaxproto.methods import METHODS


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


def test_one_segment_pads_all_to_the_longest_and_every_form_tells_its_steps():
    steps_K = [10, 5, 1]
    segments = execution.plan_segments(steps_K, 1)
    assert segments == (execution.Segment(0, 10, 3),)
    assert waste(steps_K, segments) == pytest.approx(1 - 16 / 30)
    assert execution.one_by_one().steps(steps_K) == 16
    assert execution.in_chunks(2).steps(steps_K) == 21
    assert execution.all_at_once().steps(steps_K) == 30
    two = execution.plan_segments(steps_K, 2)
    assert execution.in_segments(two, 1).steps(steps_K) == 20


def test_four_segments_waste_at_most_15_percent_at_dirichlet_01():
    """The sizes n_i of CIFAR-10, 20 clients, alpha 0.1 (`test_pfllib.py`)."""
    sizes = "1621 1814 1211 2080 5128 4264 1440 2622 2974 3236 1164 1964 5994 1527 "
    sizes += "3100 4325 4252 3175 5449 2660"
    steps = [int(0.75 * int(n)) // 32 for n in sizes.split()]
    for first in range(4):
        cohort = sorted(steps[first::4], reverse=True)
        assert waste(cohort, execution.plan_segments(cohort)) <= 0.15
    everyone = sorted(steps, reverse=True)
    assert waste(everyone, execution.plan_segments(everyone)) <= 0.15
    assert waste(everyone, execution.plan_segments(everyone, 1)) > 0.4


LARGEST_FIRST = ((8, (5, 4, 3, 2, 1, 0)),)
SEGMENTS = execution.plan_segments([6, 6, 4, 4, 2, 2], max_segments=3)  # of 5 to 0
FORMS = {"all": execution.all_at_once(), "two": execution.in_chunks(2)}
FORMS |= {"segments": execution.in_segments(SEGMENTS, chunk=2)}


@pytest.mark.long
@pytest.mark.parametrize("name", ["fedproto", "fedavg"])
def test_in_float64_a_round_is_the_same_in_every_form(name):
    """Rounding is 1e-16 there, so that whatever is more is another formula."""
    method = METHODS[name](toys.SPEC)

    def check(form):
        given = {"layout": LARGEST_FIRST, "rounds": 1, "mode": FORMS[form]}
        one, other = toys.run(method, rounds=1), toys.run(method, **given)
        assert one.report.loss.dtype == np.float64
        assert toys.gap(one.report.loss, other.report.loss) < 1e-12
        assert toys.gap(one.params, other.params) < 1e-12

    with jax.enable_x64(True):
        check_every(FORMS, check)
