"""Seconds of clients by hand, in a round and in the records of a run."""

from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from support import runs

from jaxproto.experiment import build
from jaxproto.round import federation
from jaxproto.round.simulated_time import ELAPSED
from jaxproto.storage import records
from jaxproto.training import rounds

NEVER = 1e9  # seconds; 0 would be another program


def test_seconds_of_rounds_add_up():
    watched = {ELAPSED: np.full(2, np.nan), "other": np.full(2, np.nan)}
    for r, seconds in enumerate([3.0, 1.0, 2.0]):
        reports = [SimpleNamespace(seconds=np.array([0.5, s])) for s in (seconds, 0.0)]
        now = {ELAPSED: rounds.elapsed(r, reports, watched), "other": 0.0}
        watched = rounds.record_history(r, now, watched)
    assert watched[ELAPSED].tolist() == [6.0, 4.0]


def test_an_upload_after_the_deadline_is_lost_and_a_slow_device_trains_less(tmp_path):
    """Client 2 has a slow device. After the deadline its upload counts nowhere."""
    file = runs.devices(tmp_path / "d.csv", "2,0.001,1", "0,1,1", "1,2,8")
    fields = {"time__devices": file, "local__epochs": 2}
    fields |= {"time__deadline": NEVER, "time__training": NEVER}
    exp = build.experiment(runs.digits(**fields), "cpu")
    whole, key = build.federation(exp), jax.random.key(0)
    model = federation.init_model(whole, exp.floats, jax.random.split(key))
    step = jax.jit(partial(federation.one_round, whole))

    def first_round(**floats):
        floats = {f"time.{k}": np.float32(v) for k, v in floats.items()}
        after, (report,) = step({**exp.floats, **floats}, key, model, 0)
        order = np.argsort(report.id)
        report = jax.tree.map(lambda a: np.asarray(a)[order], report)
        return report, after.server.protos.count

    timing, (on_time, holders_C) = exp.timing, first_round()
    assert (on_time.bytes > 0).all()
    # the first broadcast has no prototypes: a header and a bit for each of 10 classes
    moved = on_time.bytes + 12 + 2
    wanted = on_time.steps * timing.step_K + moved * timing.byte_K
    np.testing.assert_allclose(on_time.seconds, wanted, rtol=1e-5)
    np.testing.assert_allclose(timing.byte_K, [8e-6, 1e-6, 8e-6])
    np.testing.assert_allclose(timing.step_K / timing.step_K[0], [1, 0.5, 1e3])
    deadline = float(on_time.seconds[2]) / 2
    late, others_C = first_round(deadline=deadline)
    np.testing.assert_allclose(late.seconds, [*wanted[:2], deadline], rtol=1e-5)
    assert late.bytes.tolist() == [*on_time.bytes[:2], 0]
    assert late.steps.tolist() == on_time.steps.tolist()
    of_slow = np.isin(np.arange(10), exp.dataset.y[exp.partition.train[2]])
    np.testing.assert_array_equal(holders_C - others_C, of_slow)
    for fitting, steps in ((0.5, 1), (3.5, 3)):  # steps of client 2, at least one
        early, _ = first_round(training=fitting * timing.step_K[2])
        assert early.steps.tolist() == [*on_time.steps[:2], steps]
    assert on_time.steps[2] > 3


@pytest.mark.long
def test_records_and_the_summary_of_a_run_have_its_seconds(tmp_path):
    c = runs.digits(time__devices="lognormal", rounds=3, eval_every=2)
    summary, _ = runs.run(c, tmp_path)
    rows = records.read(tmp_path / "metrics.jsonl")
    seconds = [row["every_round"][ELAPSED] for row in rows]
    assert [len(part) for part in seconds] == [2, 1]
    of_rounds = np.diff(np.concatenate([[0.0], *seconds]))
    assert (of_rounds > 0).all()
    total = seconds[-1][-1]
    assert summary[ELAPSED] == {"total": total, "per_round": total / 3}
