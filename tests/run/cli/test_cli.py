"""The command line: one line of error without a traceback, and the exit code."""

import os
import re
import runpy
import subprocess
import sys

import pytest
from support.commands import called
from support.every import check_every
from support.refusal import refused
from support.runs import ROOT

from jaxproto import cli, config
from jaxproto.cli import list_names
from jaxproto.config import files
from jaxproto.data import registry
from jaxproto.errors import UserError
from jaxproto.methods import METHODS
from jaxproto.training import runner

PROTONORM = "--config=configs/protonorm.py"


@pytest.fixture
def command(capsys, monkeypatch):
    """Calls a command in the repository's folder; exit code, output, errors."""
    monkeypatch.chdir(ROOT)
    return lambda *arguments: (called(*arguments), *capsys.readouterr())


def test_the_exit_code_says_how_a_run_ended_and_quiet_prints_errors_alone(
    command, monkeypatch
):
    ends = ["finished", "diverged", KeyboardInterrupt, UserError("no")]

    def run(config, path, **options):
        sys.stdout.write("progress\n")
        end = ends[config.seed]
        if isinstance(end, str):
            return {"status": end}
        raise end

    monkeypatch.setattr(runner, "run", run)
    stopped = "interrupted: the same command resumes from the last checkpoint\n"
    wanted = [(0, ""), (1, ""), (130, stopped), ("error: no", "")]
    for seed, (code, err) in enumerate(wanted):
        given = "run", PROTONORM, f"--config.seed={seed}"
        assert command(*given) == (code, "progress\n", err)
        assert command(*given, "--quiet") == (code, "", err)


def test_help_lists_commands_and_an_unknown_is_told(command):
    def check(name):
        code, out, _ = command(name, "--help")
        assert code in (0, None) and f"jaxproto {name}" in out

    check_every(cli.COMMANDS, check)
    for arguments, code in ([], 1), (["--help"], 0), (["-h"], 0):
        assert command(*arguments) == (code, cli.usage(), "")
    assert command("lists")[0].startswith("error: unknown command 'lists'. Did you")


def test_list_prints_names_and_every_prefix_with_a_line_about_each(command):
    told = {"networks": r"Ht0 +group: resnet8, "}  # others: any text
    told["datasets"] = r"cifar10 +preset: tfds:cifar10"

    def check(kind):
        _, out, _ = command("list", kind)
        assert re.search(f"^{told.get(kind, '')}", out, re.M), out
        assert out and all(re.match(r"\S+ +\S", row) for row in out.splitlines()), out

    check_every(list_names.KINDS, check)
    prefixes = {name.partition(":")[0] for name in registry.ABOUT}
    assert prefixes == {*registry.PREFIXES}


MINE = """
import jaxproto
from jaxproto.methods.fedavg import fedavg
jaxproto.METHODS["of_a_file"] = lambda spec, *, share: fedavg(spec)
"""


def test_import_makes_methods_of_a_file_known_to_a_command(tmp_path, command):
    file, broken = tmp_path / "mine_of_a_test.py", tmp_path / "broken_of_a_test.py"
    file.write_text(MINE)
    broken.write_text("x = 1\ny = x / 0\n")
    name = "of_a_file"
    try:
        code, out, _ = command("list", "methods", f"--import={file}")
        assert not code and name in out.split()
    finally:
        METHODS.pop(name, None)
        sys.modules.pop(file.stem, None)
    said = called("list", "methods", f"--import={tmp_path / 'none.py'}")
    assert "no such Python file" in said
    said = called("list", "methods", f"--import={broken}")
    assert "ZeroDivisionError: division by zero, line 2 of" in said


BESIDE = """
import jaxproto
from mixing_of_a_test import SHARE
from jaxproto.methods.fedavg import fedavg


def beside(spec, *, share: float = SHARE):
    return fedavg(spec)


jaxproto.METHODS["beside"] = beside


def get_config():
    from mixing_of_a_test import ROUNDS
    c = jaxproto.config.experiment("beside")
    c.rounds = ROUNDS
    return c


def get_sweep():
    from mixing_of_a_test import SEEDS
    return {"seed": SEEDS}
"""


def test_imported_files_and_configurations_find_modules_beside_them(
    tmp_path, monkeypatch, command
):
    """As `python FILE` does, from any folder."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    file, mixing = tmp_path / "beside_of_a_test.py", tmp_path / "mixing_of_a_test.py"
    file.write_text(BESIDE)
    mixing.write_text("SHARE, ROUNDS, SEEDS = 0.25, 7, (0, 1)\n")
    (other := tmp_path / "other").mkdir()
    (other / mixing.name).write_text("SHARE, ROUNDS, SEEDS = 0.75, 9, (2,)\n")
    (other / file.name).write_text(BESIDE)
    before = [*sys.path]
    try:
        made = config.load(str(file))
        assert (made.rounds, made.method.share) == (7, 0.25)
        assert files.sweep_axes(str(file)) == {"seed": (0, 1)}
        with refused(f"{other / file.name} imports", mixing, "rename", other):
            config.load(str(other / file.name))  # not the numbers of the first
        assert sys.path == before  # a configuration leaves no trace
        code, out, _ = command("list", "methods", f"--import={file}")
        assert not code and "beside" in out.split()
    finally:
        METHODS.pop("beside", None)
        sys.modules.pop(file.stem, None)
        sys.modules.pop(mixing.stem, None)


def test_new_writes_a_method_whose_test_passes_and_overwrites_nothing(
    tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert command("new", "written_here")[0] is None
    try:
        tests = runpy.run_path("test_written_here.py")
        tests["test_it_fits_the_interface"]()
    finally:
        METHODS.pop("written_here", None)
    words = {"written_here": "exist already", "fedavg": "'fedavg' is a method already"}
    words |= dict.fromkeys(("2b", "lambda"), "is no name in Python")
    words |= dict.fromkeys(("json", "numpy", "jaxproto", "config"), "name of a module")
    for name, why in words.items():
        assert why in called("new", name)
    assert len([*tmp_path.glob("*.py")]) == 2


def test_a_home_in_a_flag_is_that_of_the_user_as_shells_leave_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    said = called("list", "methods", "--import=~/none.py")
    assert f"--import={tmp_path}/none.py: no such Python file" in said


def test_a_shell_completes_commands(command):
    _, script, _ = command("completion", "bash")
    ask = 'COMP_WORDS=(jaxproto com); COMP_CWORD=1; _jaxproto; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script + ask], capture_output=True, text=True)
    assert done.stdout.split() == [c for c in cli.COMMANDS if c.startswith("com")]


@pytest.mark.long
def test_a_platform_that_is_not_here_is_explained_without_a_traceback():
    env = {**os.environ, "JAX_PLATFORMS": "cuda"}
    command = [sys.executable, "main.py", PROTONORM]
    options = {"cwd": ROOT, "env": env, "capture_output": True, "text": True}
    done = subprocess.run(command, **options)
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ") and "jaxproto[cuda12]" in last
    assert "JAX_PLATFORMS=cuda, but JAX finds no such device here" in last
