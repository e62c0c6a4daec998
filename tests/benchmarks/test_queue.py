"""The queue of long runs: killed, it goes on, and its records say all of a run."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.every import check_every

from jaxproto import config
from jaxproto.reporting import compare
from jaxproto.storage import records
from results import queue, series

ROOT = Path(__file__).parents[2]
ROUNDS = 50
SCRIPT = f"""
import pathlib, sys
from results import queue
queue.RESULTS = pathlib.Path(sys.argv.pop())
flags = ["--config.model.group=mlp", "--config.data.clients=20"]
cells = {{"fedproto": ("fedproto.py:digits", flags)}}
queue.QUEUE = (queue.Part("digits", cells), queue.Part("digits", cells))
queue.FLAGS = {{"digits": ["--config.rounds={ROUNDS}", "--config.eval_every=1"]}}
sys.exit(queue.main(sys.argv[1:]))
"""


def start(tmp_path, *more):
    command = [sys.executable, "-c", SCRIPT, "out", "data", *more, "results"]
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=tmp_path, env=path, stdout=subprocess.PIPE, start_new_session=True
    )


def count_lines(path):
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.long
def test_a_killed_queue_goes_on_where_it_was_and_records_each_run_once(tmp_path):
    work = tmp_path / "out/digits/fedproto-1"
    with start(tmp_path) as first:
        until = time.monotonic() + 300
        while count_lines(work / "metrics.jsonl") < 4:
            assert first.poll() is None and time.monotonic() < until
            time.sleep(0.01)
        os.killpg(first.pid, signal.SIGKILL)
    assert 4 <= len(records.read(work / "metrics.jsonl")) < ROUNDS
    assert not (tmp_path / "results").exists()

    with start(tmp_path) as second:
        lines = second.communicate()[0].decode().splitlines()
    assert second.returncode == 0
    names = [line.split()[2] for line in lines]
    assert names == ["digits/fedproto-1"]
    assert "resum" in work.with_name("fedproto-1.log").read_text()
    check_content(tmp_path / "results/digits/records/fedproto-1")


def check_content(record):
    found = compare.load(record)
    assert found.summary["status"] == "finished"
    assert found.summary["reading"] == "default"
    assert found.summary["commit"] == series.commit()
    assert (found.config["seed"], found.config["data.seed"]) == (1, -1)
    with np.load(record / "clients.npz") as file:
        tables = dict(file)
    assert list(tables["round"]) == list(range(1, ROUNDS + 1))
    assert list(tables["id"]) == list(range(20))
    last = json.loads((record / "metrics.jsonl").read_text().splitlines()[-1])
    hits, size_K = tables["correct_head"][-1], tables["test_examples"]
    told = last["rules"]["head"]
    np.testing.assert_allclose(hits.sum() / size_K.sum(), told["pooled"])
    np.testing.assert_allclose((hits / size_K).mean(), told["client_mean"])


@pytest.mark.long
def test_a_queue_whose_hours_are_over_ends_in_the_middle_of_a_run(tmp_path):
    with start(tmp_path, "--hours=0.0005") as queued:
        assert queued.communicate()[0] == b""
    assert queued.returncode == 0
    assert not (tmp_path / "results").exists()


def test_every_run_of_the_queue_can_be_configured_and_is_there_once():
    runs = [(of, *run) for of, run in queue.runs()]
    assert len({run[:2] for run in runs}) == len(runs)
    made = []

    def check(of, name, file, flags):
        fields = config.flatten(config.load(f"{ROOT}/configs/{file}"))
        given = dict(f.removeprefix("--config.").split("=") for f in flags)
        assert given.keys() <= fields.keys()
        fields |= given
        del fields["name"]
        made.append((of, *sorted((k, str(v)) for k, v in fields.items())))

    check_every(runs, check)
    assert len(set(made)) == len(made)
