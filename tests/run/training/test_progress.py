"""Progress of a run: on a terminal, in a log file, at the end."""

import io
import warnings

import pytest
from rich.console import Console

from jaxproto.storage import records
from jaxproto.summary import progress_lines
from jaxproto.training.progress import progress, result_table

RULES = ("head", "local", "global", "global_own")


def record(r, loss=0.25):
    """One evaluation: pooled 50% + rule + round, client mean ten points less."""
    accuracy = {rule: 0.5 + 0.1 * i + r / 1000 for i, rule in enumerate(RULES)}
    rules = {k: {"pooled": a, "client_mean": a - 0.1} for k, a in accuracy.items()}
    return {"round": r, "rules": rules, "loss": loss}


def to(terminal, width=100):
    return Console(file=io.StringIO(), force_terminal=terminal, width=width)


def shown(terminal, width=100):
    """The text of a run of 20 rounds, evaluated every other one."""
    console = to(terminal, width)
    with progress(20, 0, console) as bar:
        for r in range(1, 5):
            bar.round(r, 30.0 if r == 1 else 0.5)
            if r % 2 == 0:
                bar.evaluated(record(r))
    return console.file.getvalue()


@pytest.fixture(autouse=True)
def a_real_terminal(monkeypatch):
    """Not the dumb one that tests may run in."""
    monkeypatch.setenv("TERM", "xterm-256color")


def test_a_log_gets_one_plain_line_per_evaluation_with_everything():
    """Whatever the width; the time left does not count compilation in round 1."""
    lines = shown(terminal=False, width=30).splitlines()
    assert len(lines) == 2
    assert lines[1] == (
        "round  4/20  head 50.40%  local 60.40%  global 70.40%  global_own 80.40%  "
        "loss 0.2500  0.5 s/round  0:00:08 left"
    )
    console = to(False)
    with progress(20, 0, console) as bar:
        bar.evaluated({"round": 0, "rules": {"head": {"pooled": None}}, "loss": None})
    assert console.file.getvalue() == "round  0/20  head -%  loss -\n"


def test_a_terminal_gets_one_line_that_is_drawn_over():
    """A narrow one loses the bar before the numbers."""
    text = shown(terminal=True)
    assert text.count("\n") == 1 and text.count("\x1b[2K") >= 4
    for width, bar in ((100, True), (60, True), (52, False)):
        last = shown(terminal=True, width=width).split("\x1b[2K")[-1]
        for number in ("round  4/20", "head 50.40%", "0.5 s/round", "0:00:08 left"):
            assert number in last
        assert "local" not in last and ("━" in last) == bar


def test_a_resumed_run_starts_where_it_stopped_and_notes_stay_as_they_are():
    note = "the checkpoint in /runs/[red]x is damaged"
    for terminal in (True, False):
        console = to(terminal)
        with progress(20, 15, console) as bar:
            progress_lines.say(console, note)
            bar.round(16, 1.0)
        text = console.file.getvalue()
        assert f"{note}\n" in text and ("round 15/20" in text) == terminal


def table_text(rules):
    console = to(False, 80)
    console.print(result_table({"rules": rules, "status": "finished"}))
    return console.file.getvalue()


def test_the_table_has_a_row_per_rule_in_percent_and_fits_80_columns():
    rules = records.rule_summary([record(r) for r in (8, 9, 10)])
    text = table_text(rules)
    row = next(line for line in text.splitlines() if "global_own" in line)
    cells = [c.strip() for c in row.strip("│").split("│")]
    want = ["81.00 (10)", "81.00", "80.90", "71.00 (10)", "71.00", "70.90"]
    assert cells == ["global_own", *want]
    assert max(map(len, text.splitlines())) <= 80 and "…" not in text
    assert "mean of last 3 evaluations" in text
    old = dict.fromkeys(("best", "best_round", "final", "mean_last_10"), 0.5)
    text = table_text({"head": {"pooled": old, "client_mean": old}})
    assert "mean of last ≤10 evaluations" in text and text.count("50.00") == 6
    none = {"round": 1, "rules": {"head": {"pooled": None, "client_mean": None}}}
    assert table_text(records.rule_summary([none])).count(" - ") == 6


@pytest.mark.parametrize("columns", ("0", "20", "60"))
def test_a_table_in_a_file_is_never_cut(columns, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", columns)
    digest = {"best": 0.5, "best_round": 10_000, "final": 0.8675, "mean_last": 0.86}
    digest |= {"last_n": 10}
    rules = {"global_own": {"pooled": digest, "client_mean": digest}}
    table = result_table({"rules": rules, "status": "finished"})
    progress_lines.print_table(progress_lines.make_console(), table)
    text = capsys.readouterr().out
    assert text.count("50.00 (10000)") == 2 and text.count("86.75") == 2
    assert "…" not in text and "global_own" in text


def test_a_table_on_a_terminal_is_as_wide_as_it():
    console = to(True, 40)
    table = result_table({"rules": records.rule_summary([record(8)])})
    progress_lines.print_table(console, table)
    assert "…" in console.file.getvalue()


def test_a_line_is_printed_whatever_the_columns(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "0")
    progress_lines.say(progress_lines.make_console(), "one line")
    assert capsys.readouterr().out == "one line\n"


def test_programs_that_cannot_be_kept_are_said_once():
    console = to(False)
    with progress_lines.warn_uncached_once(console):
        for name in ("a", "b"):
            text = f"{progress_lines.UNKEPT} for '{name}': OSError: No space left"
            warnings.showwarning(text, UserWarning, __file__, 1)
    line = "compiled programs cannot be kept for other runs (No space left)\n"
    assert console.file.getvalue() == line
