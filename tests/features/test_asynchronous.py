"""Asynchronous rounds against synchronous ones, and against a queue of events."""

import heapq
from functools import partial

import jax
import numpy as np
import pytest
from support import runs
from support.refusal import refused

from jaxproto import config
from jaxproto.experiment import build
from jaxproto.round import federation
from jaxproto.round.simulated_time import ELAPSED

DEVICES = "0,4,1e9", "1,1.7,1e9", "2,0.3,1e9"  # messages take nearly no time


def small(tmp_path, method="fedproto", **changes):
    file = runs.devices(tmp_path / "d.csv", *DEVICES)
    return runs.digits(method, time__devices=file, **changes)


def rounds(c, number):
    """Yields server and report, in the order of ids, after every round."""
    exp = build.experiment(c, "cpu")
    whole, key = build.federation(exp), jax.random.key(0)
    floats = dict(exp.floats)
    model = federation.init_model(whole, floats, jax.random.split(key))
    step = jax.jit(partial(federation.one_round, whole, floats))
    for r in range(number):
        model, (report,) = step(jax.random.fold_in(key, r), model, r)
        order = np.argsort(report.id)
        yield model.server, jax.tree.map(lambda a, at=order: np.asarray(a)[at], report)


def events(seconds_K, size, number):
    """Yields the clients that begin, the end and the mean age of uploads of a round."""
    queue = [(seconds, i, 0) for i, seconds in enumerate(seconds_K)]
    heapq.heapify(queue)
    begin, now = {*range(len(seconds_K))}, 0.0
    for r in range(number):
        arrived = [heapq.heappop(queue) for _ in range(size)]
        now = arrived[-1][0]
        yield begin, now, np.mean([r - begun for *_, begun in arrived])
        begin = {i for _, i, _ in arrived}
        for i in begin:
            heapq.heappush(queue, (now + seconds_K[i], i, r + 1))


near = partial(np.testing.assert_allclose, rtol=1e-5, atol=1e-7)


@pytest.mark.long
@pytest.mark.parametrize("method", ["fedproto", "fedavg"])
def test_a_buffer_of_all_clients_gives_synchronous_rounds(tmp_path, method):
    both = (rounds(small(tmp_path, method, time__buffer=n), 2) for n in (0, 3))
    for (server, report), (state, other) in zip(*both, strict=True):
        jax.tree.map(near, state.server, server)  # FedAvg adds in another order
        np.testing.assert_array_equal(other.steps, report.steps)
        assert float(state.scalars.watched["upload_age"]) == 0
        assert min(report.steps) > 1  # time.training is 0: no limit


@pytest.mark.long
@pytest.mark.parametrize("size", [1, 2])
def test_uploads_arrive_in_the_order_of_a_queue_of_events_and_count_then(
    tmp_path, size
):
    """With values in float16, which seconds are not rounded to.

    FedProto's server has the means of what arrived, by class.
    """
    found = [*rounds(small(tmp_path, time__buffer=size, wire__up="float16"), 8)]
    wanted = [*events(found[0][1].seconds, size, 8)]
    held = found[0][0].held  # of round 0, from all clients
    for (state, report), (begin, now, age) in zip(found, wanted, strict=True):
        assert {*np.flatnonzero(report.steps)} == begin
        watched = state.scalars.watched
        assert float(watched[ELAPSED]) == pytest.approx(now, rel=1e-5)
        assert float(watched["upload_age"]) == age
        idle_K = np.isinf(state.wait)
        there_KC1 = (np.asarray(state.held.count[idle_K]) > 0)[..., None]
        total_CD = np.sum(np.asarray(state.held.mean[idle_K]), 0, where=there_KC1)
        mean_CD = total_CD / np.maximum(there_KC1.sum(0), 1)
        near(np.asarray(state.server.protos.mean), mean_CD)
        for i in {*range(3)} - begin:
            np.testing.assert_array_equal(state.held.mean[i], held.mean[i])
        held = state.held
    assert any(age > 0 for *_, age in wanted)


@pytest.mark.long
def test_a_run_in_several_calls_has_the_same_events_and_resumes(tmp_path):
    """A call has one client, so that rows of a call are not all clients."""
    fields = {"rounds": 4, "eval_every": 1, "clients_at_once": "1"}
    c = small(tmp_path, time__buffer=1, **fields)
    runs.run(c, tmp_path / "whole")
    for total in (2, 4):
        c.rounds = total
        runs.run(c, tmp_path / "halves")
    whole = runs.records(tmp_path / "whole")
    assert whole == runs.records(tmp_path / "halves")
    assert [row["participants"] for row in whole] == [3, 1, 1, 1]
    assert any(row["every_round"]["upload_age"] != [0] for row in whole)


def test_what_does_not_go_with_a_buffer_is_refused(tmp_path):
    for fields, message in [
        ({"time__buffer": 4}, "time.buffer is 4, but at most 3 clients"),
        ({"time__buffer": 1, "time__deadline": 2.0}, "set one of them to 0"),
        ({"time__buffer": 1, "privacy__unit": "client"}, "privacy.unit is 'client'"),
    ]:
        with refused(message):
            config.check(small(tmp_path, **fields))
