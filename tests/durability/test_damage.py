"""Every damage to a run's folder ends in one line, or in a run that goes on.

No row may delete a checkpoint or a record that it does not make again.
"""

import json
import shutil
from pathlib import Path

import pytest
from support import attacked
from support.hostile_folders import replace

from jaxproto.errors import UserError
from jaxproto.storage import checkpoint

pytestmark = pytest.mark.long  # a second each
quick_programs = attacked.quick_programs


@pytest.fixture(scope="module")
def made(tmp_path_factory, quick_programs):
    """A finished run with checkpoints of rounds 2, 3, 4, and one of another seed."""
    root = tmp_path_factory.mktemp("made")
    file = attacked.data(root / "toy.npz")
    c = attacked.small("fedproto", file, rounds=4, eval_every=2)
    attacked.run(c, root / "run")
    other = attacked.small("fedproto", file, rounds=4, eval_every=2, seed=1)
    attacked.run(other, root / "other")
    return root, c


@pytest.fixture
def run(made, tmp_path):
    """A copy to be damaged, which has not ended; another run is beside it."""
    shutil.copytree(made[0] / "other", tmp_path / "other")
    (shutil.copytree(made[0] / "run", tmp_path / "run") / "summary.json").unlink()
    return tmp_path / "run"


def metrics(run):
    return run / "metrics.jsonl"


def lines(run):
    return metrics(run).read_bytes().splitlines(keepends=True)


def put(run, *kept):
    metrics(run).write_bytes(b"".join(kept))


def copy(run, old, new):
    shutil.copytree(run / "checkpoints" / old, run / "checkpoints" / new)


def foreign(run):
    shutil.rmtree(run / "checkpoints/4")
    shutil.copytree(run.parent / "other/checkpoints/4", run / "checkpoints/4")


FROM_3 = "going on from the one of round 3."
NAMELESS = ("04", "x", "\u0665")  # no rounds
MANIFEST = "checkpoints/4/manifest.json"
DEEP = b'{"round":' * 100_000
GOES_ON = [  # what is said, and the damage
    (
        "4 in {run}/checkpoints is ahead of metrics.jsonl, which lacks round 4; "
        + FROM_3,
        lambda run: put(run, lines(run)[0], lines(run)[1][:40]),  # torn
    ),
    ("is of another run (seed: 1 there, 0 here); " + FROM_3, foreign),
    (
        "is damaged (manifest.json cannot be read); " + FROM_3,
        lambda run: (run / MANIFEST).write_bytes(DEEP),
    ),
    (
        "manifest.json: it is a folder, no regular file); " + FROM_3,
        lambda run: replace(run / MANIFEST, Path.mkdir),
    ),
    (
        "resuming {run} after round 4",
        lambda run: [copy(run, "4", name) for name in NAMELESS],
    ),
]


@pytest.mark.parametrize(("said", "damage"), GOES_ON)
def test_a_damaged_run_goes_on_to_the_same_end_and_says_from_where(
    made, run, said, damage
):
    damage(run)
    text = attacked.run(made[1], run).replace("\n", " ")
    assert said.format(run=run) in text
    assert attacked.end(run)[0] == attacked.end(made[0] / "run")[0]
    there = {p.name for p in (run / "checkpoints").iterdir()}
    assert {"2", "4"} <= there <= {"2", "3", "4", *NAMELESS}
    assert not list(run.rglob("*.partial")) and not list(run.rglob("*.new"))


REFUSED = [  # what is said, and the damage
    ("metrics.jsonl cannot be read", lambda run: replace(metrics(run), Path.mkdir)),
    (
        "line 1 of {run}/metrics.jsonl is no record of a run: it is nested too deep",
        lambda run: put(run, DEEP, b"\n", *lines(run)),
    ),
    (
        "no checkpoint in {run}/checkpoints can be used: that of round 4 is ahead of "
        "metrics.jsonl, which lacks round 2; that of round 3 is",
        put,
    ),
    ("checkpoints is a file", lambda run: replace(run / "checkpoints", Path.touch)),
    (
        "{run}/indices.csv has another partition",
        lambda run: (run / "indices.csv").write_bytes(b"\xff\xfe"),
    ),
]


def contents(run):
    """Everything below a folder but the lock of whoever has looked."""
    return {
        str(p): p.read_bytes() if p.is_file() else None
        for p in run.rglob("*")
        if p.name != ".lock"
    }


@pytest.mark.parametrize(("said", "damage"), REFUSED)
def test_what_cannot_go_on_is_refused_in_one_line_and_left_alone(
    made, run, said, damage
):
    damage(run)
    there = contents(run)
    with pytest.raises(UserError) as e:
        attacked.run(made[1], run)
    text = str(e.value)
    assert said.format(run=run) in text
    assert "\n" not in text and len(text) < 1000
    assert contents(run) == there


def test_a_made_longer_run_must_have_the_record_of_where_it_first_ended(made, run):
    c = attacked.small("fedproto", made[0] / "toy.npz", rounds=6, eval_every=4)
    other = run.parent / "longer"
    attacked.run(attacked.small("fedproto", made[0] / "toy.npz", eval_every=4), other)
    attacked.run(c, other)
    rounds = [json.loads(line)["round"] for line in lines(other)]
    assert rounds == [3, 4, 6] and checkpoint.rounds(other / "checkpoints") == [4, 5, 6]
    (other / "summary.json").unlink()
    assert "after round 6" in attacked.run(c, other)
