"""Every bad input is one line of error before training, and leaves nothing behind."""

import os
import re
import subprocess
import sys

import pytest
from support import bad_files, bad_rows
from support.commands import ending
from support.hostile_folders import bounded
from support.runs import ROOT

from jaxproto import cli
from jaxproto.data import host_memory
from jaxproto.training import runner

LONG = pytest.param("other ranges", marks=pytest.mark.long)
KINDS = ("ranges", LONG, "types", "names", "words", "workdirs", "files")
pytestmark = pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections


@pytest.fixture(scope="module")
def bad(tmp_path_factory):
    """The folder of bad files, and all rows, whose words are a value, field or file."""
    root = tmp_path_factory.mktemp("bad")
    kinds = bad_rows.all_of(bad_files.make(root))
    rows = [row for some in kinds.values() for row in some]
    assert len(rows) >= 300 and len({row.arguments for row in rows}) == len(rows)
    assert all(len(row.words) > 1 for row in rows)
    return root, kinds


def typed(row, root, work) -> list[str]:
    arguments = [a.replace("{}", str(root)) for a in row.arguments]
    own = any(a.startswith("--workdir") for a in arguments)
    return [*([] if own else [f"--workdir={work}"]), *arguments]


def answer(arguments) -> str:
    try:
        with bounded(20), ending() as end:
            cli.call("run", "main.py", arguments)
    except BaseException as error:
        return f"traceback: {type(error).__name__}: {error}"
    return str(end.value.code)


def fault(said: str, row, root, work) -> str:
    words = row.words.replace("{}", str(root))
    left = {p.name for p in work.rglob("*")} if work.exists() else set()
    if not re.fullmatch(r"error: [^\n]+", said):
        return f"not one line of error: {said[:300]!r}"
    if words not in said:
        return f"does not say {words!r}: {said[:300]!r}"
    return f"left behind: {left}" if left else ""


@pytest.mark.parametrize("kind", KINDS)
def test_a_bad_input_is_one_line_of_error(bad, kind, tmp_path, monkeypatch, capsys):
    def trains(*_, **__):
        raise AssertionError("it was let through to training")

    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("JAXPROTO_CACHE", "off")
    monkeypatch.setattr(runner, "compile_programs", trains)
    monkeypatch.setattr(host_memory, "host_memory_bytes", lambda: 16 * 2**30)
    root, rows = bad
    failed = []
    for i, row in enumerate(rows[kind]):
        work = tmp_path / f"run{i}"
        why = fault(answer(typed(row, root, work)), row, root, work)
        failed += [f"{' '.join(row.arguments)!r} {why}"] * bool(why)
    with capsys.disabled():
        sys.stdout.write(f"\n{kind}: {len(rows[kind])} tried, {len(failed)} failed\n")
    assert not failed, "\n".join(failed)


def test_an_input_that_is_right_comes_to_training(monkeypatch, tmp_path):
    """So that the rows are not refused for something that all of them have."""
    monkeypatch.chdir(ROOT)
    made = []
    monkeypatch.setattr(
        runner, "compile_programs", lambda *a, **k: made.append(1) or 1 / 0
    )
    for name in ("local:spiral", "protonorm", "fedtgp"):
        said = answer([f"--config={name}", f"--workdir={tmp_path / name[:5]}"])
        assert said.startswith("traceback: ZeroDivisionError")
    assert made == [1, 1, 1]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["ranges", "names", "words", "workdirs", "files"])
def test_the_same_in_a_process_of_its_own(bad, kind, tmp_path):
    root, rows = bad
    row, work = rows[kind][-1], tmp_path / "run"
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "JAXPROTO_CACHE": "off"}
    command = [sys.executable, ROOT / "main.py", *typed(row, root, work)]
    options = {"capture_output": True, "cwd": ROOT, "env": env, "timeout": 120}
    end = subprocess.run(command, **options)
    assert end.returncode == 1 and b"Traceback" not in end.stdout + end.stderr
    said = end.stderr.decode().removesuffix("\n")
    assert not fault(said, row, root, work), said
