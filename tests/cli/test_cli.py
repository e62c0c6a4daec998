"""The command line: one line of error without a traceback, and the exit code."""

import importlib
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import called, ending
from support.every import check_every

import jaxproto
from jaxproto import cli, config, sweeps
from jaxproto.cli import list_names
from jaxproto.data import registry
from jaxproto.errors import UserError
from jaxproto.methods import METHODS
from jaxproto.training import runner, signals

ROOT = Path(__file__).parents[2]
PROTONORM = "--config=configs/protonorm.py"

pytestmark = pytest.mark.filterwarnings("ignore:the load_module")  # ml_collections


@pytest.fixture
def command(capsys, monkeypatch):
    """Calls a command in the repository's folder; exit code, output, errors."""
    monkeypatch.chdir(ROOT)
    return lambda *arguments: (called(*arguments), *capsys.readouterr())


def test_flags_reach_the_runner(command, monkeypatch):
    """Without a work directory it is named after what differs."""
    received = []

    def record(config, path, cache, grace, devices="", callbacks=()):
        received.append((config, path))
        assert cache is True and devices == ""
        return {"status": "finished"}

    monkeypatch.setattr(runner, "run", record)
    flags = ["--config.method.upscale=7", "--config.data.partition=iid"]
    flags += ["--noconfig.data.pool", "--workdir=runs/mine"]
    code, _, _ = command("run", f"{PROTONORM}:spiral,code", *flags)
    ((made, path),) = received
    assert code == 0 and path == "runs/mine"
    assert made.data.name == "spiral" and made.method.lam == 10.0
    assert made.method.upscale == 7.0 and made.data.partition == "iid"
    assert made.data.pool is False
    command("run", f"{PROTONORM}:spiral,paper", "--config.rounds=1000")
    flags = ["--config.data.seed=follow", "--config.seed=3"]
    command("run", "--config", "protonorm", *flags)
    assert [str(path) for _, path in received[1:]] == [
        "runs/protonorm-spiral-seed0-paper",
        "runs/protonorm-digits-seed3-data.seed=-1",
    ]
    assert config.resolved_data_fields(received[-1][0]).seed == 3


def test_the_exit_code_says_whether_the_run_finished(command, monkeypatch):
    for status, want in {"finished": 0, "diverged": 1}.items():
        told = {"status": status}
        monkeypatch.setattr(runner, "run", lambda *_, told=told, **__: told)
        assert command("run", PROTONORM)[0] == want

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(runner, "run", interrupted)
    code, _, err = command("run", PROTONORM)
    after = "the same command resumes from the last checkpoint"
    assert (code, err) == (130, f"interrupted: {after}\n")


def test_a_sweep_takes_the_axes_of_its_file_or_of_the_flags(command, monkeypatch):
    said, *_ = command("sweep", PROTONORM)
    lacks = r"error: \S*configs/protonorm\.py defines no get_sweep: give the axes of "
    assert re.fullmatch(rf"{lacks}the sweep, such as --sweep=seed=0,1,2\.", said)
    seen = []

    def stop(c, axes, *_, **__):
        seen.append((c.name, axes))
        raise UserError("stopped")

    monkeypatch.setattr(sweeps, "sweep", stop)
    file = "--config=sweeps/protonorm_table4:digits"
    for more in ([], ["--sweep=seed=7"]):
        assert command("sweep", file, *more)[0] == "error: stopped"
    of_file = {"seed": [0, 1, 2], "method.upscale": [1, 200, 400, 600, 800, 1000]}
    assert seen == [("protonorm_table4", axes) for axes in (of_file, ["seed=7"])]


KINDS = {  # of `list`: a line that it prints
    "methods": r"fedproto +\S",
    "networks": r"Ht0 +group: resnet8, ",
    "datasets": r"cifar10 +preset: tfds:cifar10",
    "partitions": r"pfllib_pathological +\S",
    "samplers": r"random_count +\S",
    "optimizers": r"adamw +\S",
    "metrics": r"auc +Area under the ROC curve",
    "plots": r"confusion +Draws confusion",
    "sweeps": r"sweeps/clients +\S",
}


FLAGS_OF = (
    ("run", "--workdir=WORKDIR", "--config.FIELD=VALUE", "--print_config"),
    ("sweep", "--part=PART"),
    ("inspect", "--out=OUT"),
    ("cost", "--all"),
    ("disclosure", "--config=FILE.py"),
    ("fields", "--config=FILE.py"),  # its old name
    ("compare", "--statistic"),
    ("plot", "accuracy_against_field"),
    ("prepare", "--manual_dir"),
    ("cache", "--clear"),
    ("list", f"{{{','.join(KINDS)}}}"),
)


def test_help_lists_commands_and_their_flags_and_an_unknown_is_told(
    command, monkeypatch, capsys
):
    def check(name, *flags):
        code, out, _ = command(name, "--help")
        assert code in (0, None) and f"jaxproto {name}" in out
        assert [flag for flag in flags if flag not in out] == []

    check_every(FLAGS_OF, check)
    for arguments, code in ([], 1), (["--help"], 0), (["-h"], 0):
        assert command(*arguments) == (code, cli.usage(), "")
    assert all(f"\n  {name} " in cli.usage() for name in cli.COMMANDS)
    assert command("cots")[0].startswith("error: unknown command 'cots'. Did you ")
    monkeypatch.setattr(sys, "argv", ["main.py", "--help"])
    with ending() as end:
        runpy.run_path("main.py", run_name="__main__")
    signals.remove_signal_handlers()
    out = capsys.readouterr().out
    assert not end.value.code and "--config=FILE.py" in out and "usage: main.py" in out


def test_quiet_prints_errors_alone(command, monkeypatch):
    def run(config, path, **options):
        sys.stdout.write("progress\n")
        if config.seed:
            raise UserError("no")
        return {"status": "finished"}

    monkeypatch.setattr(runner, "run", run)
    assert command("run", PROTONORM, "--quiet") == (0, "", "")
    assert command("run", PROTONORM) == (0, "progress\n", "")
    failed = command("run", PROTONORM, "--quiet", "--config.seed=1")
    assert failed == ("error: no", "", "")


def test_list_prints_names_and_every_prefix_with_a_line_about_each(command):
    def check(kind, line):
        _, out, _ = command("list", kind)
        assert re.search(f"^{line}", out, re.M), out
        assert all(re.match(r"\S+ +\S", text) for text in out.splitlines()), out

    check_every(KINDS.items(), check)
    prefixes = {name.partition(":")[0] for name in list_names.READERS}
    assert prefixes == {*registry.PREFIXES}


def test_print_config_says_value_origin_choices_and_meaning(command):
    given = (f"{PROTONORM}:spiral,paper", "--config.rounds=7", "--print_config")
    code, out, _ = command("run", *given)
    lines = dict(zip(out.splitlines()[::2], out.splitlines()[1::2], strict=True))
    told = "communication rounds; a whole number, at least 1 and below 2**31"
    assert not code and lines["rounds = 7  (command line)"] == f"    {told}"
    regularizers = lines["method.reg = l2_of_means  (reading paper)"]
    assert regularizers.endswith("; l2_of_means | mse_mean | sq_l2_mean")
    assert {
        "method.lam = 1.0  (reading paper)",
        "model.feat_dim = 2  (preset spiral)",
        "method.upscale = 10.0  (configs/protonorm.py)",
        "data.train_share = 0.75  (default)",
    } <= {*lines}


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
        made = config.experiment(name, "digits")
        made.imports = str(file)
        (tmp_path / "config.json").write_text(made.to_json())
    finally:
        METHODS.pop(name, None)
        sys.modules.pop(file.stem, None)
    with pytest.raises(UserError, match=rf"'{name}' of {file}.*--import={file}"):
        jaxproto.load(tmp_path)
    for path, words in (
        (tmp_path / "none.py", "no such Python file"),
        (broken, "ZeroDivisionError: division by zero, line 2 of"),
    ):
        assert words in called("list", "methods", f"--import={path}")


def test_new_writes_a_method_whose_test_passes_and_overwrites_nothing(
    tmp_path, monkeypatch, command
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert command("new", "written_here")[0] is None
    try:
        module = importlib.import_module("written_here")
        c = module.get_config()
        c.data.clients, c.model.group = 4, "mlp"
        jaxproto.check(c)
        tests = runpy.run_path("test_written_here.py")
        tests["test_it_fits_the_interface"]()
    finally:
        METHODS.pop("written_here", None)
    for name, words in (
        ("written_here", "is a method already|exists already"),
        ("fedavg", "'fedavg' is a method already"),
        ("2b", "is no name in Python"),
    ):
        assert re.search(words, called("new", name))


def test_version_and_completion(command):
    assert command("--version")[1] == f"jaxproto {jaxproto.__version__}\n"
    code, script, _ = command("completion", "bash")
    assert not code and " compare " in script and " protonorm " in script
    ask = 'COMP_WORDS=(jaxproto com); COMP_CWORD=1; _jaxproto; echo "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", script + ask], capture_output=True, text=True)
    assert done.stdout.split() == ["compare", "completion"]


@pytest.mark.long
def test_a_platform_that_is_not_here_is_explained_without_a_traceback():
    env = {**os.environ, "JAX_PLATFORMS": "cuda", "JAXPROTO_CACHE": "off"}
    command = [sys.executable, "main.py", PROTONORM]
    options = {"cwd": ROOT, "env": env, "capture_output": True, "text": True}
    done = subprocess.run(command, **options)
    assert done.returncode == 1 and "Traceback" not in done.stdout + done.stderr
    last = done.stderr.splitlines()[-1]
    assert last.startswith("error: ") and "jaxproto[cuda12]" in last
    assert "JAX_PLATFORMS=cuda, but JAX finds no such device here" in last
