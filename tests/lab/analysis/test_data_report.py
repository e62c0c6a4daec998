"""`jaxproto inspect`: numbers and pictures of a configuration's data."""

import io
import re

import numpy as np
import pytest
from rich.console import Console
from support.commands import called
from support.refusal import refused
from support.runs import digits

from jaxproto.data import partition_stats
from jaxproto.data.partitions import partition
from jaxproto.experiment import build
from jaxproto.lab import plots
from jaxproto.lab.analysis import data_report, data_samples
from jaxproto.training import programs


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """Inspects changed digits into a folder; what it prints, on one line."""
    monkeypatch.setattr(programs, "init", None)  # the first thing that a run would do
    monkeypatch.setattr(plots, "available", lambda: False)

    def show(every=False, **fields):
        file = io.StringIO()
        console = Console(file=file, width=160)
        out = tmp_path / "out"
        assert out == data_report.inspect(configured(**fields), out, every, console)
        return " ".join(re.sub("[│┃]", " ", file.getvalue()).split())

    return show


def configured(**fields):
    return digits(**{"data__clients": 5, **fields})


def test_numbers_are_those_of_partition_and_all_methods(shown, monkeypatch):
    exp = build.experiment(configured(), "cpu")
    train, test, _ = exp.counts
    monkeypatch.setattr(plots, "available", lambda: True)
    text = shown(every=True)
    held_K = ((train + test) > 0).sum(axis=1)
    skew = partition_stats.skew(train)
    assert f"total variation of labels {skew.variation.min():.2f}" in text
    assert f"{held_K.sum()} in training and test data, {(train > 0).sum()} in" in text
    assert f"{(train.sum(axis=1) // 10).sum()} steps, " in text
    unseen = partition_stats.num_unseen(exp.counts)
    assert f"{unseen} of {test.sum()} test examples are" in text
    assert f"fedproto {(held_K.sum() + 5 * 10) * 64:,} (as configured)" in text
    assert "local 0 " in text and "protonorm " in text and "tinyproto " in text
    assert "pixels scaled to [-1, 1]: -1 to 1, mean -0.389, deviation 0.752" in text
    few = (train > 0).sum(1)
    per_client = f"{few.min()} to {few.max()} classes per client, {few.mean():.1f} on"
    assert f"dirichlet, data.alpha=1.0, data.min_size=20: {per_client}" in text
    assert "a smaller data.alpha gives fewer classes per client" in text
    assert "1,797 of clients, 0 public, 0 nobody's" in text
    assert "partition.csv, indices.csv, partition.png, samples.png" in text


def test_public_examples_an_official_test_part_and_sources_are_counted(
    shown, tmp_path, monkeypatch
):
    """And drawn: images of two channels, points of four features."""
    monkeypatch.setattr(plots, "available", lambda: True)
    rng, y = np.random.default_rng(0), np.arange(100) % 5
    x = rng.integers(0, 255, (100, 9, 70, 2)).astype(np.uint8)
    path = tmp_path / "a.npz"
    parts = {"x_train": x, "y_train": y, "x_test": x[:20], "y_test": y[:20]}
    np.savez(path, **parts, num_classes=6)
    text = shown(
        data__name=f"npz:{path}", data__pool=False, data__partition="iid",
        data__public_share=0.1, data__public_classes=0.4,
    )  # fmt: skip
    assert "120 examples (20 of them the official test part), 6 classes" in text
    assert "110 of clients, 10 public, 0 nobody's" in text
    assert "10 examples of 2 classes" in text
    assert "classes without an example: 5" in text and "samples.png" in text
    x, y = rng.normal(size=(90, 4)), np.arange(90) % 3
    np.savez(path, x_train=x, y_train=y, domain_train=np.arange(90) % 9)
    fields = {"data__partition": "feature", "data__clients": 3}
    text = shown(data__name=f"npz:{path}", **fields)
    assert "9 sources of examples" in text and "sources of examples 3 3 3.0 3" in text
    assert "samples.png" in text


def test_many_clients_stay_readable_also_without_matplotlib(shown, tmp_path):
    text = shown(data__clients=100, data__min_size=2)
    assert "clients from 20 on not shown" in text and "100 clients hold" in text
    assert len(text) < 4_000
    assert f"no pictures: {plots.HINT}" in text
    assert not (tmp_path / "out/partition.png").exists()
    with refused("Not a directory. Ch"):
        data_report.inspect(configured(), tmp_path / "out/indices.csv/x", False, None)


def test_texts_are_printed(shown, tmp_path):
    names = "sport", "news"
    lines = [f"word [b] number{i % 7} ,{names[i % 2]}" for i in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["text,label", *lines]))
    text = shown(
        data__name=f"csv:{tmp_path / 'a.csv'}", data__partition="iid",
        model__group="fasttext",
    )  # fmt: skip
    assert re.search(r"(news|sport) word \[b\] number\d", text)


def test_the_command_takes_the_flags_of_a_run(tmp_path, monkeypatch, capsys):
    path = tmp_path / "changed.py"
    path.write_text(
        "from jaxproto import config\n"
        "def get_config(arg='digits'):\n    return config.experiment('local', arg)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plots, "available", lambda: False)
    given = ("--config.data.clients=3", "--config.model.group=mlp", "--noall")
    assert not called("inspect", f"--config={path}:digits", *given)
    out = "runs/local-digits-seed0-data.clients=3-model.group=mlp-inspect"
    assert out in capsys.readouterr().out
    assert (tmp_path / out / "partition.csv").is_file()


def test_distances_of_labels_by_hand():
    """All labels: 1/2, 1/2. Both clients have a total variation of 1/2."""
    skew = partition_stats.skew(np.array([[4, 0], [0, 4]]))
    to_all = 0.5 * np.log2([0.5 / 0.75, 0.5 / 0.25]).sum()
    np.testing.assert_allclose(skew.variation, [0.5, 0.5])
    np.testing.assert_allclose(skew.shannon, np.sqrt((np.log2(4 / 3) + to_all) / 2))


def test_samples_are_the_clients_own_sorted_by_class():
    exp = build.experiment(configured(), "cpu")
    for client, rows in enumerate(exp.partition.train):
        chosen = data_samples.rows_of(exp, client, 7)
        assert len(chosen) == min(7, len(rows)) == len(np.intersect1d(chosen, rows))
        assert (np.diff(exp.dataset.y[chosen]) >= 0).all()
    alone = exp._replace(partition=partition.centralise(exp.partition))
    assert data_samples.shown_clients(alone) == [0]
