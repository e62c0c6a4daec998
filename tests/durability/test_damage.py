"""Every damage to a run's folder ends in one line, or in a run that goes on.

One run is made and copied for each row. None may end in another error than UserError,
and none may delete a checkpoint or a record that it does not make again.
"""

import json
import shutil
import sys
from collections import Counter
from pathlib import Path

import pytest
from support import attacked

import jaxproto
from jaxproto import cli, compare
from jaxproto.cli import plot
from jaxproto.errors import UserError
from jaxproto.storage import checkpoint

pytestmark = pytest.mark.long  # a second each
COUNT: Counter = Counter()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished run with checkpoints of rounds 2, 3, 4, and one of another seed."""
    root = tmp_path_factory.mktemp("made")
    file = attacked.data(root / "toy.npz")
    c = attacked.small("fedproto", file, rounds=4, eval_every=2)
    other = attacked.small("fedproto", file, rounds=4, eval_every=2, seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attacked.Figure, "savefig", lambda f, to, **_: to.write(b"png"))
        attacked.run(c, root / "run")
        attacked.run(other, root / "other")
        yield root, c
    sys.stdout.write(f"damages: {dict(COUNT)}\n")


@pytest.fixture
def run(made, tmp_path):
    """A copy to be damaged."""
    return Path(shutil.copytree(made[0] / "run", tmp_path / "run"))


def half(run):
    """The run before it has ended."""
    (run / "summary.json").unlink()


def lines(run):
    return (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)


def put(run, *kept):
    (run / "metrics.jsonl").write_bytes(b"".join(kept))


def drop(run, *rounds):
    for r in rounds:
        shutil.rmtree(run / "checkpoints" / str(r))


def move(run, old, new):
    (run / "checkpoints" / old).rename(run / "checkpoints" / new)


def copy(run, old, new):
    shutil.copytree(run / "checkpoints" / old, run / "checkpoints" / new)


def foreign(run, made):
    drop(run, 4)
    shutil.copytree(made / "other/checkpoints/4", run / "checkpoints/4")


DEEP = b'{"round":' * 100_000
TEXT = json.dumps  # of what stands in a file
GOES_ON = {  # damage of a run that has not ended -> what is said
    "last record lost": (
        lambda run, _: put(run, lines(run)[0]),
        "the checkpoint of round 4 in {run}/checkpoints is ahead of metrics.jsonl, "
        "which lacks round 4; going on from the one of round 3.",
    ),
    "last record doubled": (
        lambda run, _: put(run, *lines(run), lines(run)[1]),
        "is ahead of metrics.jsonl, which has round 4 in line 3, after round 4; going "
        "on from the one of round 3.",
    ),
    "last record torn": (
        lambda run, _: put(run, lines(run)[0], lines(run)[1][:40]),
        "which lacks round 4; going on from the one of round 3.",
    ),
    "checkpoint renamed": (
        lambda run, _: move(run, "3", "50"),
        "the checkpoint of round 50 in {run}/checkpoints is that of round 3 under "
        "another name; going on from the one of round 4.",
    ),
    "checkpoint copied over the newest": (
        lambda run, _: (drop(run, 4), copy(run, "3", "4")),
        "is that of round 3 under another name; going on from the one of round 3.",
    ),
    "checkpoint of another run": (
        foreign,
        "is of another run (seed: 1 there, 0 here); going on from the one of round 3.",
    ),
    "manifest nested too deep": (
        lambda run, _: (run / "checkpoints/4/manifest.json").write_bytes(DEEP),
        "is damaged (manifest.json cannot be read); going on from the one of round 3.",
    ),
    "manifest is a folder": (
        lambda run, _: (
            (run / "checkpoints/4/manifest.json").unlink(),
            (run / "checkpoints/4/manifest.json").mkdir(),
        ),
        "manifest.json: Is a directory); going on from the one of round 3.",
    ),
    "a file like a half checkpoint": (
        lambda run, _: (run / "checkpoints/7.partial").write_text("x"),
        "resuming {run} after round 4",
    ),
    "left by a kill in cleaning": (
        lambda run, _: (
            copy(run, "2", "1.partial"),
            (run / "summary.json.new").write_text("{"),
        ),
        "resuming {run} after round 4",
    ),
    "a fourth checkpoint, left by a kill": (
        lambda run, _: copy(run, "2", "1"),
        "resuming {run} after round 4",
    ),
    "names that are no rounds": (
        lambda run, _: (
            copy(run, "4", "04"),
            copy(run, "4", "x"),
            copy(run, "4", "\u0665"),
        ),
        "resuming {run} after round 4",
    ),
}


@pytest.mark.parametrize("name", GOES_ON)
def test_a_damaged_run_goes_on_to_the_same_end_and_says_from_where(made, run, name):
    damage, said = GOES_ON[name]
    half(run)
    damage(run, made[0])
    text = attacked.run(made[1], run).replace("\n", " ")
    assert said.format(run=run) in text
    assert attacked.end(run)[0] == attacked.end(made[0] / "run")[0]
    there = {p.name for p in (run / "checkpoints").iterdir()}
    assert {"2", "4"} <= there <= {"2", "3", "4", "04", "x", "\u0665", "50"}
    assert not list(run.rglob("*.partial")) and not list(run.rglob("*.new"))
    COUNT["goes on"] += 1


REFUSED = {  # damage of a run that has not ended -> what is said
    "no metrics": (
        lambda run: put(run),
        "no checkpoint in {run}/checkpoints can be used: that of round 4 is ahead of "
        "metrics.jsonl, which lacks round 2; that of round 3 is",
    ),
    "metrics deleted": (
        lambda run: (run / "metrics.jsonl").unlink(),
        "is ahead of metrics.jsonl, which lacks round 2; that of round 3",
    ),
    "metrics is a folder": (
        lambda run: ((run / "metrics.jsonl").unlink(), (run / "metrics.jsonl").mkdir()),
        "{run}/metrics.jsonl cannot be read (Is a directory)",
    ),
    "record is a list": (
        lambda run: put(run, b"[1]\n", *lines(run)),
        "line 1 of {run}/metrics.jsonl is no record of a run: it holds a list, no",
    ),
    "record without round": (
        lambda run: put(run, b"{}\n", *lines(run)),
        "line 1 of {run}/metrics.jsonl is no record of a run: its round is 'absent'",
    ),
    "round is a text": (
        lambda run: put(run, *lines(run), b'{"round": "3"}\n'),
        "line 3 of {run}/metrics.jsonl is no record of a run: its round is '3'",
    ),
    "record nested too deep": (
        lambda run: put(run, DEEP, b"\n", *lines(run)),
        "line 1 of {run}/metrics.jsonl is no record of a run: it is nested too deep",
    ),
    "record not UTF-8": (
        lambda run: put(run, b'"\xff"\n', *lines(run)),
        "line 1 of {run}/metrics.jsonl is no record of a run: it is not JSON",
    ),
    "checkpoints is a file": (
        lambda run: (
            shutil.rmtree(run / "checkpoints"),
            (run / "checkpoints").write_text(""),
        ),
        "{run}/checkpoints is a file, where a run has the folder of its checkpoints",
    ),
    "indices not UTF-8": (
        lambda run: (run / "indices.csv").write_bytes(b"\xff\xfe"),
        "{run}/indices.csv has another partition",
    ),
    "all checkpoints renamed": (
        lambda run: [
            move(run, a, b) for a, b in [("4", "40"), ("3", "30"), ("2", "9")]
        ],
        "that of round 40 is that of round 4 under another name; that of round 30",
    ),
}
CONFIGS = {
    "a list": (b"[]", "it holds a list, no object"),
    "empty": (b"", "Expecting value"),
    "method.name is a list": (b'{"method": {"name": [1]}}', "method.name is '[1]'"),
    "method is a text": (b'{"method": "fedproto"}', "method is 'fedproto'"),
    "no method": (b'{"seed": 0}', "method.name is absent"),
    "seed is a text": (
        b'{"method": {"name": "local"}, "seed": "a"}',
        "seed is 'a'",
    ),
    "nested too deep": (DEEP, "it is nested too deep"),
    "not UTF-8": (b'{"\xff": 1}', "codec can't decode"),
}
SUMMARIES = {
    "empty object": (b"{}", "it lacks"),
    "no rules": (b'{"status": "finished", "rounds": 4}', "it lacks rules"),
    "status is a number": (b'{"status": 1, "rounds": 4, "rules": {}}', "status is '1'"),
    "rules is a list": (b'{"status": "a", "rounds": 4, "rules": []}', "rules is '[]'"),
    "a rule is a number": (
        b'{"status": "finished", "rounds": 4, "rules": {"head": 1}}',
        "all of rule head is '1'",
    ),
    "accuracy is a text": (
        b'{"status": "finished", "rounds": 4, "rules": {"head": {"pooled": {"best": '
        b'"x", "final": 1}}}}',
        "pooled of rule head is",
    ),
    "nested too deep": (DEEP, "it is nested too deep"),
    "a list": (b"[]", "it holds a list, no object"),
}


def one_line(call, *args) -> str:
    """The message of a UserError, which is one line."""
    with pytest.raises(UserError) as e:
        call(*args)
    text = str(e.value)
    assert "\n" not in text and len(text) < 1000
    return text


def one_message(config, run, picture) -> str:
    """The message that commands have in common."""
    arguments = ["accuracy_over_rounds", str(picture), str(run)]
    (text,) = {
        one_line(attacked.run, config, run),
        one_line(compare.load, run),
        one_line(jaxproto.load, run),
        one_line(plot.main, "plot", arguments),
    }
    return text


def contents(run):
    """Everything below a folder but the lock of whoever has looked."""
    return {
        str(p): p.read_bytes() if p.is_file() else None
        for p in run.rglob("*")
        if p.name != ".lock"
    }


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_go_on_is_refused_in_one_line_and_left_alone(made, run, name):
    damage, said = REFUSED[name]
    half(run)
    damage(run)
    before = contents(run)
    assert said.format(run=run) in one_line(attacked.run, made[1], run)
    assert contents(run) == before
    COUNT["refused"] += 1


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_that_is_none_is_named_by_every_command(made, run, tmp_path, name):
    content, said = CONFIGS[name]
    (run / "config.json").write_bytes(content)
    assert said in one_message(made[1], run, tmp_path / "a.png")
    COUNT["config.json"] += 4


@pytest.mark.parametrize("name", SUMMARIES)
def test_a_summary_that_is_none_is_named_by_every_command(made, run, tmp_path, name):
    content, said = SUMMARIES[name]
    (run / "summary.json").write_bytes(content)
    assert said in one_message(made[1], run, tmp_path / "a.png")
    COUNT["summary.json"] += 4


@pytest.mark.parametrize("row", ["record is a list", "metrics is a folder"])
def test_pictures_of_damaged_metrics_are_refused_in_one_line(run, tmp_path, row):
    REFUSED[row][0](run)
    for kind in ("accuracy_over_rounds", "accuracy_against_bytes"):
        one_line(plot.main, "plot", [kind, str(tmp_path / "a.png"), str(run)])
        COUNT["plot"] += 1


@pytest.mark.parametrize("damage", [lambda run: put(run), lambda run: put(run, b"")])
def test_a_finished_run_without_its_metrics_says_what_is_missing(made, run, damage):
    damage(run)
    before = contents(run)
    text = one_line(attacked.run, made[1], run)
    assert f"{run} has ended after 4 rounds, but not all of it is there" in text
    assert "lacks round 2" in text
    assert contents(run) == before
    (run / "metrics.jsonl").unlink()
    assert "lacks round 2" in one_line(attacked.run, made[1], run)
    COUNT["finished"] += 2


def test_a_made_longer_run_must_have_the_record_of_where_it_first_ended(made, run):
    c = attacked.small("fedproto", made[0] / "toy.npz", rounds=6, eval_every=4)
    other = run.parent / "longer"
    attacked.run(attacked.small("fedproto", made[0] / "toy.npz", eval_every=4), other)
    attacked.run(c, other)
    rounds = [json.loads(line)["round"] for line in lines(other)]
    assert rounds == [3, 4, 6] and checkpoint.rounds(other / "checkpoints") == [4, 5, 6]
    (other / "summary.json").unlink()
    assert "after round 6" in attacked.run(c, other)


def test_a_refused_start_leaves_no_folder_that_it_has_made(made, tmp_path):
    c = attacked.small("fedproto", made[0] / "toy.npz", data__clients=200)
    with pytest.raises(UserError):
        attacked.run(c, tmp_path / "new" / "below" / "run")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "notes.txt").write_text("mine")
    with pytest.raises(UserError):
        attacked.run(c, tmp_path / "there")
    assert [p.name for p in (tmp_path / "there").iterdir()] == ["notes.txt"]
    COUNT["refused start"] += 2


def test_a_run_of_another_configuration_is_left_as_it_was(made, run):
    (run / ".lock").unlink()
    before = sorted(p.name for p in run.iterdir())
    c = attacked.small("fedproto", made[0] / "toy.npz", rounds=4, seed=7)
    with pytest.raises(UserError, match="different configuration"):
        attacked.run(c, run)
    assert sorted(p.name for p in run.iterdir()) == before


def test_comparing_passes_over_what_is_no_run_and_says_so(run, tmp_path, capfd):
    (tmp_path / "empty").mkdir()
    (tmp_path / "table.md").write_text("")
    given = sorted(map(str, tmp_path.iterdir()))
    with pytest.raises(SystemExit) as end:
        cli.call("compare", "compare", given)
    out, err = capfd.readouterr()
    assert not end.value.code and "FedProto" in out
    assert err.splitlines() == [
        f"passed over, for it holds no run: {tmp_path / name}"
        for name in ("empty", "table.md")
    ]
    with pytest.raises(SystemExit, match=r"error: .*empty holds no config\.json"):
        cli.call("compare", "compare", [str(tmp_path / "empty")])
