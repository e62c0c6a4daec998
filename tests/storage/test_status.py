"""How far a run is: one answer for every command that reads a folder."""

from jaxproto.storage.status import Status, status_of


def test_a_status_follows_from_summary_and_rounds():
    ended = {
        status: status_of({"status": status, "rounds": 4}, 4)
        for status in ("finished", "stopped early", "diverged")
    }
    assert [*ended] == [*ended.values()]  # as they are written
    assert status_of(None) is Status.RUNNING
    assert status_of(None, begun=False) is Status.NEW
    assert status_of({"status": "finished", "rounds": 4}, 5) is Status.EXTENDED
    assert status_of({"status": "of another version", "rounds": 4}) is Status.RUNNING


def test_what_ended_and_what_ended_well():
    assert {s for s in Status if s.ok} == {Status.FINISHED, Status.STOPPED_EARLY}
    assert {s for s in Status if s.ended and not s.ok} == {Status.DIVERGED}
