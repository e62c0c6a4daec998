"""Files of --import in the processes that a run starts elsewhere."""

import os
import pickle
import re
import subprocess
import sys

import pytest
from support.commands import called
from support.refusal import refused
from support.runs import ROOT, small

from jaxproto import METHODS
from jaxproto.io import user_files
from jaxproto.lab import sweeps
from jaxproto.lab.sweeps.ray_launcher.worker import RemoteJob
from jaxproto.nodes.flower import parse_config

MINE = """
import jaxproto
from helper_of_a_test import SHARE
from jaxproto.methods.local import local
jaxproto.METHODS["of_a_file"] = lambda spec, *, share=SHARE: local(spec)
"""
CONFIG = """
from jaxproto import config
get_config = lambda: config.experiment("of_a_file", "spiral")
"""
RAY_WORKER = """
from jaxproto.lab.sweeps.ray_launcher import worker
print(worker.train_part(given, 0, 1), end="")
"""
FLOWER_NODE = """
from jaxproto.nodes.flower import parse_config
print(*(parse_config(given).method.share for message in range(2)), end="")
"""


@pytest.fixture
def mine(tmp_path, monkeypatch, capsys):
    """A configuration as the command line has it, with a method of a file."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file_of_a_test.py").write_text(MINE)
    (tmp_path / "helper_of_a_test.py").write_text("SHARE = 0.25\n")
    (tmp_path / "its_config.py").write_text(CONFIG)
    try:
        words = "--import=file_of_a_test.py", "--config=its_config.py"
        assert not called("run", *words, "--print_config")
        (files,) = re.findall(r"^imports = '?([^' ]+)", capsys.readouterr().out, re.M)
        yield small("of_a_file", imports=files)
    finally:
        METHODS.pop("of_a_file", None)
        for name in ("file_of_a_test", "helper_of_a_test"):
            sys.modules.pop(name, None)


def in_a_process(script, given, folder):
    """What a script prints in a new process of another folder."""
    start = "import pickle, sys\ngiven = pickle.load(sys.stdin.buffer)\n"
    command = [sys.executable, "-c", start + script]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    (folder / "elsewhere").mkdir()
    options = {"cwd": folder / "elsewhere", "env": env, "capture_output": True}
    done = subprocess.run(command, input=pickle.dumps(given), **options)
    assert not done.returncode, done.stderr.decode()
    return done.stdout.decode()


def test_a_node_of_flower_knows_the_methods_of_imported_files(mine, tmp_path):
    assert in_a_process(FLOWER_NODE, mine.to_json(), tmp_path) == "0.25 0.25"
    assert parse_config(mine.to_json()).method.share == 0.25  # imported already


@pytest.mark.long
def test_a_worker_of_ray_knows_the_methods_of_imported_files(mine, tmp_path):
    how, fields = sweeps.SweepOptions("one"), mine.to_dict()
    axes, out = {"seed": [0]}, str(tmp_path / "sweep")
    job = RemoteJob(fields, fields, axes, out, how, {}, str(tmp_path), str(tmp_path))
    assert in_a_process(RAY_WORKER, job, tmp_path) == ""
    assert len([*(tmp_path / "sweep").glob("*/summary.json")]) == 1


def test_a_file_that_fails_leaves_no_module(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    (file := tmp_path / "fails_of_a_test.py").write_text("1 / 0\n")
    for _ in range(2):  # such as two messages to a node
        with refused(f"--import={file} fails: ZeroDivisionError"):
            user_files.import_missing(f"{file}")
    with refused("--import=none_of_a_test.py: no such Python file"):
        user_files.import_missing("none_of_a_test.py")
