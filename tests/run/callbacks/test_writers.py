"""Callbacks of a run: events, errors, early ends; the writer csv."""

import io
import json
import shutil
import threading
import time
import tomllib

import pytest
from rich.console import Console
from support import runs, told
from support.callbacks import Heard, several, table
from support.every import check_every
from support.refusal import refused
from support.runs import run, small

import jaxproto
from jaxproto import callbacks as writers
from jaxproto import config
from jaxproto.callbacks import Callback, EarlyStopping, RunInfo, Stop, scalar_points
from jaxproto.callbacks.base import EVENTS
from jaxproto.core.registry import Place
from jaxproto.errors import UserError
from jaxproto.experiment import traced
from jaxproto.storage import checkpoint, records
from jaxproto.summary import run_summary as summaries
from jaxproto.training import callback_list, runner
from jaxproto.training.callback_list import CallbackList

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture(scope="module")
def quick():
    """Runs of the same settings are compiled once."""
    real, made = runner.prepare, {}

    def prepare(start, cache):
        c = start.config
        key = repr((traced.program_settings(c), c.seed, c.early_stopping.rule))
        if key not in made:
            made[key] = real(start, cache)
        exp = made[key].exp._replace(floats=traced.traced_floats(c))
        summaries.save_partition(exp, start.path)
        return made[key]._replace(exp=exp)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "prepare", prepare)
        yield


class Failing(Callback):
    def __init__(self, event):
        def fail(*_):
            raise RuntimeError(f"no\nmore {event}")

        setattr(self, event, fail)


def each_round(**changes):
    return several(**{"eval_every": 1, "checkpoint_every": 1, **changes})


@pytest.fixture(scope="module")
def plain(quick, tmp_path_factory):
    """A run of four rounds without callbacks, evaluated each round."""
    path = tmp_path_factory.mktemp("plain")
    run(each_round(), path)
    return path


def killed(whole, path, after):
    """A run as if it had been killed `after` so many rounds."""
    shutil.copytree(whole, path, dirs_exist_ok=True)
    (path / "summary.json").unlink()
    for r in checkpoint.rounds(path / "checkpoints"):
        if r > after:
            shutil.rmtree(path / "checkpoints" / str(r))


def test_a_callback_gets_every_event_in_order(tmp_path):
    heard = Heard()
    summary, _ = run(several(), tmp_path, heard)
    evaluated = ["on_round", "on_evaluation"]
    last = ["on_round", "on_checkpoint", *evaluated, "on_checkpoint", "on_end"]
    assert heard.names() == ["on_start", "on_round", *evaluated, *last]
    ((info,),) = heard.of("on_start")
    assert info.path == tmp_path and info.round == 0 and info.records == []
    assert info.config == config.flatten(several())
    rounds = [record for (record,) in heard.of("on_round")]
    assert [r["round"] for r in rounds] == [1, 2, 3, 4]
    assert all(r["seconds"] > 0 and r["participants"] == 3 for r in rounds)
    told = [record for (record,) in heard.of("on_evaluation")]
    assert told == records.read(tmp_path / "metrics.jsonl")
    saved = [(r, tmp_path / "checkpoints" / str(r)) for r in (3, 4)]
    assert [tuple(s) for s in heard.of("on_checkpoint")] == saved
    assert heard.of("on_end") == [[json.loads((tmp_path / "summary.json").read_text())]]
    assert summary["status"] == "finished"


def test_a_resumed_run_starts_with_its_records_and_an_ended_is_silent(plain, tmp_path):
    killed(plain, tmp_path, 3)
    heard = Heard()
    run(each_round(), tmp_path, heard)
    ((info,),) = heard.of("on_start")
    assert info.round == 3 and [r["round"] for r in info.records] == [1, 2, 3]
    assert [record["round"] for (record,) in heard.of("on_evaluation")] == [4]
    heard = Heard()
    _, text = run(each_round(), tmp_path, heard)
    assert "nothing to do" in text and heard.events == []


def test_the_end_of_a_run_that_diverges_or_breaks_off_is_one_event(tmp_path):
    heard = Heard()
    run(several(optimizer__learning_rate=1e30), tmp_path, heard)
    ((summary,),) = heard.of("on_end")
    assert summary["status"] == "diverged" and "client" in summary["reason"]
    for error, status in ((KeyboardInterrupt, "interrupted"), (OSError, "failed")):
        heard = Heard()
        told = CallbackList([heard], Console(quiet=True))
        with pytest.raises(error), told.running(RunInfo(tmp_path, {}, 2, ())):
            told.round(3, 0.1, {})
            raise error("broken")
        told.end({"status": "finished"})
        end = {"status": status, "reason": "broken", "rounds": 3}
        assert heard.of("on_end") == [[end]]


class Wild(Callback):
    """Changes all its arguments; notes its threads."""

    def __init__(self):
        self.threads = set()

    def on_evaluation(self, record):
        self.threads.add(threading.current_thread())
        record.clear()

    def on_end(self, summary):
        self.threads.add(threading.current_thread())
        summary["status"] = "mine"


def test_callbacks_that_fail_or_change_their_arguments_change_nothing(plain, tmp_path):
    bad, heard, wild = [Failing(event) for event in EVENTS], Heard(), Wild()
    summary, text = run(each_round(), tmp_path, *bad, wild, heard, "csv", "jsonl")
    said = [line for line in text.splitlines() if "RuntimeError" in line]
    off = [f"callback Failing is switched off: {e}: RuntimeError" for e in EVENTS[:-1]]
    for line, start in zip(said[:-1], off, strict=True):
        assert line.startswith(start) and "more on_" in line
    assert said[-1].startswith("callback Failing has failed: on_end: RuntimeError: no")
    assert heard.names()[-1] == "on_end"
    assert all(record["rules"] for (record,) in heard.of("on_evaluation"))
    assert summary["status"] == heard.of("on_end")[0][0]["status"] == "finished"
    assert runs.records(tmp_path) == runs.records(plain)
    saved = (tmp_path / "config.json").read_bytes()
    assert saved == (plain / "config.json").read_bytes()
    made = {p.name for p in tmp_path.iterdir()} - {p.name for p in plain.iterdir()}
    assert made == {"metrics.csv"}
    (thread,) = wild.threads  # all handlers of a callback run in one, which ends
    thread.join(5)
    assert not thread.is_alive()


class Unreadable(Exception):
    def __str__(self):
        raise RuntimeError("unreadable")


def answering(event, answer):
    """A callback that returns a value from one event, or raises it."""

    def handle(*_):
        if isinstance(answer, BaseException):
            raise answer
        return answer

    callback = Callback()
    setattr(callback, event, handle)
    return callback


def test_answers_that_a_run_cannot_use_and_exits_switch_a_callback_off(tmp_path):
    """Only on_start and on_evaluation can end a run."""

    def check(event, answer, words):
        out, info = io.StringIO(), RunInfo(tmp_path, {}, 0, ())
        told = CallbackList([answering(event, answer)], Console(file=out, width=500))
        with told.running(info):
            told.round(1, 0.1, {})
            told.notify("on_evaluation", {})
            told.notify("on_checkpoint", 1, tmp_path)
            told.end({})
        (line,) = out.getvalue().splitlines()
        assert words in line and "callback Callback" in line
        assert told.stop is None

    answers = [("on_evaluation", answer) for answer in ("STOP", True, Stop, 0)]
    answers += [("on_round", "stop"), ("on_round", Stop()), ("on_end", "stop")]
    check_every(
        [(e, a, f": {e} returns {a!r}, which has no") for e, a in answers], check
    )
    raised = {
        "SystemExit: 3": SystemExit(3),
        "GeneratorExit: ": GeneratorExit(),
        "KeyboardInterrupt: own": KeyboardInterrupt("own"),
        "Unreadable: its message cannot be read": Unreadable(),
    }
    check_every([("on_round", e, f": on_round: {w}") for w, e in raised.items()], check)


class Typing(Callback):
    def on_eval(self, record):
        """Is never called."""


class Short(Callback):
    def on_round(self):
        """Does not take the record."""


class Needy(Callback):
    def __init__(self, patience):
        """Needs an argument."""


class Leaving(Callback):
    def __init__(self):
        raise SystemExit(0)


def test_callbacks_that_cannot_work_are_refused_before_training():
    made, factories = writers.make_callbacks, writers.callback_factories
    typing = "unknown event of callback Typing 'on_eval'. Did you mean 'on_evaluation'?"
    cases = [
        (lambda: made([Typing()]), typing),
        (lambda: factories([Typing]), typing),
        (lambda: factories([lambda: Typing()])[0](), typing),
        (lambda: made([Short()]), "Short: on_round takes (), but is called with (rec"),
        (lambda: factories([Needy]), "Needy takes (patience), but is called with ()"),
        (lambda: factories([Leaving])[0](), "makes no callback: SystemExit: 0, line "),
    ]

    def check(call, words):
        with refused(words) as e:
            call()
        assert "\n" not in str(e.value)

    check_every(cases, check)


def test_a_hanging_callback_is_dropped(plain, tmp_path, monkeypatch):
    class Hanging(Callback):
        def on_evaluation(self, record):
            threading.Event().wait()

        def on_end(self, summary):
            threading.Event().wait()

    console = Console(file=io.StringIO(), width=80)
    monkeypatch.setattr(callback_list, "CLOSE", 0.3)
    clock, heard = time.monotonic(), Heard()
    CallbackList([Hanging(), heard, Hanging()], console).end({"status": "finished"})
    assert time.monotonic() - clock < 5
    assert console.file.getvalue().count("Hanging is left behind") == 2
    assert heard.names() == ["on_end"]
    monkeypatch.setattr(callback_list, "EVENT", 0.5)
    text = run(each_round(), tmp_path, Hanging())[1]
    (line,) = [x for x in text.splitlines() if "Hanging is switched off: on_eval" in x]
    assert line.endswith(": TimeoutError: takes over 0.5 s"), line
    assert runs.records(tmp_path) == runs.records(plain)


def test_records_that_vanish_while_a_run_trains_are_written_again(plain, tmp_path):
    class Vandal(Callback):
        def on_evaluation(self, record):
            file = tmp_path / "metrics.jsonl"
            content = {1: "", 2: file.read_text() * 2}
            if text := content.get(record["round"]):
                file.write_text(text)
            else:
                file.unlink()

    summary, _ = run(each_round(), tmp_path, Vandal())
    assert runs.records(tmp_path) == runs.records(plain)
    assert [summary["rounds"], summary["rules"]["head"]["pooled"]["last_n"]] == [4, 4]


def test_objects_that_are_no_callbacks_are_errors_before_the_folder_is_made(
    tmp_path, monkeypatch
):
    for wrong in (object(), Heard, 3):
        with pytest.raises(UserError, match=r"no callback: .* on_start, .* a writer"):
            run(small(), tmp_path / "run", wrong)
    with pytest.raises(UserError, match=r"unknown writer 'cvs'.*'csv'"):
        run(small(), tmp_path / "run", "cvs")
    with pytest.raises(UserError, match="unknown writer 'cvs'"):
        jaxproto.run(small(), tmp_path / "run", callbacks="csv,cvs")
    made = writers.make_callbacks("csv,jsonl")
    assert [type(callback).__name__ for callback in made] == ["CsvWriter"]
    assert writers.make_callbacks(heard := Heard()) == [heard]
    with pytest.raises(UserError, match=r"early_stopping.rule 'haed'.*'head'"):
        run(early(early_stopping__rule="haed"), tmp_path / "run")
    project = tomllib.loads((runs.ROOT / "pyproject.toml").read_text())["project"]
    assert {*writers.WRITERS} - {"csv"} <= {*project["optional-dependencies"]}
    missing = Place("no_such_module:Writer")
    monkeypatch.setitem(writers.WRITERS, "none", missing)
    with pytest.raises(UserError, match=r"^writer 'none' cannot be used: No module.*"):
        run(small(), tmp_path / "run", "none")
    monkeypatch.setitem(writers.WRITERS._entries, "wandb", missing)
    with pytest.raises(UserError, match=r"^writer 'wandb' cannot be used.*wandb\]'"):
        run(small(), tmp_path / "run", "wandb")
    assert not (tmp_path / "run").exists()


def test_early_stopping_counts_evaluations_since_the_best():
    def fed(values, test=None, **options):
        callback = EarlyStopping(**{"patience": 2, **options})
        callback.on_start(RunInfo(None, {}, 0, ()))
        for r, value in enumerate(values, 1):
            rules = {"head": {"pooled": value}, "local": {"pooled": 1.0}}
            record = {"round": r, "rules": rules}
            if test:  # the values are those of validation examples
                record["rules"] = {"head": {"pooled": test[r - 1]}}
                record["validation"] = rules
            if asked := callback.on_evaluation(record):
                return r, asked.reason
        return None

    reason = "no pooled {} accuracy of rule head above 0.3000 of round {} in 2 eval"
    ended, why = fed([0.1, 0.3, 0.3, 0.2, 0.9])
    assert ended == 4 and why.startswith(reason.format("test", 2))
    assert fed([0.1, 0.3, 0.3, 0.31, 0.3]) is None
    assert fed([0.1, 0.3, 0.3, 0.31, 0.3], least=0.02)[0] == 4
    assert fed([None, None, 0.5])[0] == 2
    assert fed([0.1, 0.2, 0.3], rule="local")[0] == 3
    ended, why = fed([0.3, 0.2, 0.1], test=[0.1, 0.2, 0.3])
    assert ended == 3 and why.startswith(reason.format("validation", 1))


def early(**changes):
    fields = {"early_stopping__patience": 2, "early_stopping__least": 0.9, **changes}
    return each_round(**fields)


def test_configured_early_stopping_ends_in_the_same_round_after_a_kill(plain, tmp_path):
    """And goes on with another rule, but not by itself."""
    programs = traced.program_settings
    assert programs(early()) == programs(each_round())
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    summary, text = run(early(), whole)
    assert summary["status"] == "stopped early" and summary["rounds"] == 3
    assert f"stopped early: {summary['reason']}" in text
    assert checkpoint.rounds(whole / "checkpoints")[-1] == 3
    assert runs.records(whole) == runs.records(plain)[:3]
    for after in (2, 3):  # before the last evaluation; after it, without a summary
        killed(whole, parts, after)
        assert run(early(), parts)[0]["reason"] == summary["reason"]
        assert runs.records(parts) == runs.records(whole)
        shutil.rmtree(parts)
    before = runs.snapshot(whole)
    assert "is stopped early: nothing to do" in run(early(rounds=9), whole)[1]
    assert runs.snapshot(whole) == before
    with pytest.raises(UserError, match="different configuration"):
        run(early(early_stopping__patience=0, seed=3), whole)
    heard = Heard()
    summary, _ = run(early(early_stopping__patience=0), whole, heard)
    assert summary["status"] == "finished" and summary["rounds"] == 4
    assert [r["round"] for (r,) in heard.of("on_round")] == [4]
    assert runs.records(whole) == runs.records(plain)


def test_the_numbers_of_a_record_have_their_rounds_and_names():
    record = {"round": 4, "rules": {"head": {"pooled": 0.5, "client_std": None}}}
    record |= {"metrics": {"head": {"macro_f1": 0.25}}, "bytes_up": 7, "flag": True}
    record |= {"bytes_by_client": {"up": [1, 2]}, "bytes_total": {"up": 9}}
    record |= {"smallest_angle": 30.0, "every_round": {"smallest_angle": [29.0, 30.0]}}
    before, last = scalar_points(record)
    assert before == (3, {"server/smallest_angle": 29.0})
    assert last.round == 4 and last.values == {
        "accuracy/head/pooled": 0.5,
        "metrics/head/macro_f1": 0.25,
        "round/bytes_up": 7,
        "bytes_total/up": 9,
        "server/smallest_angle": 30.0,
    }


def test_every_number_is_written_once_after_a_kill_and_when_added_late(tmp_path):
    for late in (False, True):
        path = tmp_path / str(late)
        path.mkdir()
        told.killed_and_resumed("csv", path, late)
        assert told.once(table(path)) == told.expected()
