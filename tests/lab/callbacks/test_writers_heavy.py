"""The writers whose libraries are large, against these libraries, without a network.

`.ci/run` installs them: pip install -e '.[wandb,mlflow]' tensorboard.
"""

import json
import struct
from functools import partial

import pytest
from support.runs import run, small
from support.told import CONFIG, expected, killed_and_resumed, once

from jaxproto.lab.callbacks import pictures
from jaxproto.storage import records

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("default")]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to run in, of which no library looks outside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("WANDB_DIR", "MLFLOW_TRACKING_URI", "WANDB_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    (tmp_path / "run").mkdir()
    return tmp_path


def of_tensorboard(path):
    module = "tensorboard.backend.event_processing.event_accumulator"
    accumulator = pytest.importorskip(module)
    kinds = accumulator.STORE_EVERYTHING_SIZE_GUIDANCE
    found = accumulator.EventAccumulator(str(path / "tensorboard"), kinds).Reload()
    parts = ("experiment", "session_end_info", "session_start_info")
    hyperparameters = found.PluginTagToContent("hparams")
    assert sorted(hyperparameters) == [f"_hparams_/{part}" for part in parts]
    tags = found.Tags()["scalars"]
    return once((tag, e.step, e.value) for tag in tags for e in found.Scalars(tag))


def test_tensorboard_itself_reads_every_number_once(here):
    pytest.importorskip("tensorboard")
    killed_and_resumed("tensorboard", here / "run", late=True)
    assert of_tensorboard(here / "run") == pytest.approx(expected())


def entries(data):
    """Yields the entries of a .wandb file, a log like LevelDB's in blocks of 32 KiB."""
    at, entry = 7, b""
    while at < len(data):
        if (left := -at % 2**15) and left < 7:
            at += left
            continue
        size, kind = struct.unpack("<HB", data[at + 4 : at + 7])
        entry += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or its last part
            yield entry
            entry = b""


def of_wandb(folder):
    """History, settings and project of an offline run."""
    import wandb
    from wandb.proto import wandb_internal_pb2

    wandb.teardown()  # waits for its service, which writes the file after `finish`
    (file,) = folder.glob("*.wandb")
    rows, config, name = [], {}, ""
    for data in entries(file.read_bytes()):
        entry = wandb_internal_pb2.Record.FromString(data)
        if entry.HasField("run"):
            name = entry.run.project
            config |= {u.key: json.loads(u.value_json) for u in entry.run.config.update}
        if entry.HasField("history"):
            each = ((i.key or "/".join(i.nested_key), i) for i in entry.history.item)
            items = {key: json.loads(i.value_json) for key, i in each}
            step = items.pop("_step", entry.history.step.num)
            rows += [(k, step, v) for k, v in items.items() if k[0] != "_"]
    return once(rows), config, name


def test_wandb_offline_has_the_whole_run_in_the_newest_folder(here):
    pytest.importorskip("wandb")
    path = here / "run"
    killed_and_resumed("wandb", path)
    folders = sorted((path / "wandb").glob("offline-run-*"))
    ident = (path / "wandb_id.txt").read_text().strip()
    assert len(folders) == 2 and all(ident in f.name for f in folders)
    newest = folders[-1]  # names begin with the time; a killed run's folder may change
    found, config, project = of_wandb(newest)
    assert found == pytest.approx(expected())
    assert CONFIG.items() <= config.items() and project == "jaxproto"


def of_mlflow(**where):
    from mlflow import MlflowClient

    client = MlflowClient(**where)
    experiment = client.get_experiment_by_name("jaxproto")
    (run,) = client.search_runs([experiment.experiment_id])
    history = partial(client.get_metric_history, run.info.run_id)
    each = [(k, m) for k in run.data.metrics for m in history(k)]
    return once((k, m.step, m.value) for k, m in each), run


@pytest.mark.parametrize("store", ["", "file:mlruns"])
def test_mlflow_has_one_run_with_every_number_once(here, monkeypatch, store):
    pytest.importorskip("mlflow")
    if store:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
        monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    killed_and_resumed("mlflow", here / "run")
    found, run = of_mlflow()
    assert found == pytest.approx(expected())
    assert run.data.params == {k: str(v) for k, v in CONFIG.items()}
    assert run.info.run_name == "run" and run.info.status == "FINISHED"
    assert (here / ("mlruns" if store else "mlflow.db")).exists()


def test_a_run_tells_all_of_them_and_is_as_without(here, monkeypatch):
    for library in ("tensorboard", "wandb", "mlflow"):
        pytest.importorskip(library)
    monkeypatch.setattr(pictures, "draw_all", lambda *_: None)
    c, path = small(rounds=2, eval_every=1), here / "run"
    names = ["csv", "tensorboard", "wandb", "mlflow"]
    summary, text = run(c, path, *names)
    assert summary["status"] == "finished" and "callback" not in text, text
    want = expected(records.read(path / "metrics.jsonl"))
    assert of_tensorboard(path) == pytest.approx(want)
    (folder,) = (path / "wandb").glob("offline-run-*")
    assert of_wandb(folder)[0] == pytest.approx(want)
    assert of_mlflow()[0] == pytest.approx(want)
