"""Runs on texts of CSV files."""

import jax
import numpy as np
import pytest
from support import quick, runs
from support.fields import changed
from support.refusal import refused

from jaxproto import config
from jaxproto.data import text
from jaxproto.experiment import build
from jaxproto.methods import METHODS
from jaxproto.methods.options import NETWORKS
from jaxproto.storage import records, workdir
from jaxproto.wrappers.privacy import EXAMPLE

quick_runs = quick.quick_runs  # a fixture of all tests here
CLASSES = ("blue", "green", "red")


def synthetic():
    """Texts of no to eight words; half of them tell the class."""
    rng = np.random.default_rng(0)
    for n in range(60):
        name, words = CLASSES[n % 3], ["the", "of", "and"]
        words += [f"{name}{i}" for i in range(4)]
        yield " ".join(rng.choice(words, rng.integers(0, 9))), name


@pytest.fixture(scope="module")
def toy(tmp_path_factory):
    path = tmp_path_factory.mktemp("toy") / "toy.csv"
    path.write_text("".join(f"{words},{name}\n" for words, name in synthetic()))
    return path


def configured(path, method="local", **changes):
    """Two clients that divide the made-up texts."""
    fields = {"data.name": f"csv:{path}", "data.clients": 2, "data.partition": "iid"}
    fields |= {"data.max_len": 6, "model.group": "fasttext", "model.feat_dim": 6}
    fields |= {"local.batch_size": 8, "rounds": 1}
    return changed(config.experiment(method, "digits"), fields, **changes)


def test_a_resumed_run_keeps_its_vocabulary_and_a_failed_one_leaves_none(toy, tmp_path):
    workdir.save_tokens(tmp_path, (*text.SPECIAL, "of", "blue1"))
    assert workdir.tokens(tmp_path) is None  # no run has begun there
    workdir.save_config(tmp_path, configured(toy))
    known = workdir.tokens(tmp_path)
    exp = build.experiment(configured(toy), "cpu", known)
    assert exp.dataset.tokens == known and exp.dataset.x.max() == 3
    shapes = jax.eval_shape(exp.cohorts[0].net.init, jax.random.key(0))[0]
    assert shapes["body"]["embedding"]["table"].shape == (4, 6)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.long
def test_every_method_runs_two_rounds_on_texts_or_says_why_not(toy, name, tmp_path):
    group = "text" if name == "protonorm" else "fasttext"  # two cohorts
    few = {"data__vocab_size": 9, "rounds": 2, "eval_every": 1}
    c = configured(toy, name, model__group=group, **few)
    own = {f"method.{k}": "fasttext" for k in NETWORKS if k in c.method}
    everyone = {"participation.law": "all", "participation.fraction": 1.0}
    own |= {"method.q": 0.0, **everyone} if name == "fast" else {}  # no snapshot
    c.update_from_flattened_dict(own)
    if name == "vhl":
        with refused("vhl shares virtual images, but the inputs are int32"):
            runs.run(c, tmp_path)
        return
    summary, said = runs.run(c, tmp_path, width=200)
    assert summary["status"] == "finished"  # all numbers are finite
    told = records.read(tmp_path / "metrics.jsonl")
    assert len(told) == 2
    for record in told:
        idle = name == "fedpcl" and record["round"] == 1  # no prototypes yet
        assert np.isfinite(record["loss"]) and (record["loss"] != 0) is not idle
        assert all(0 <= of["pooled"] <= 1 for of in record["rules"].values())
    assert "9 tokens in the vocabulary; " in said
    lines = (tmp_path / "vocabulary.txt").read_text().splitlines()
    assert len(lines) == 9 and lines[:2] == [*text.SPECIAL]


def test_texts_need_a_public_vocabulary(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    public = tmp_path / "vocabulary.txt"
    text.write(public, (*text.SPECIAL, "day", "good"))

    def tokens(rare, where):
        lines = [f"{('good', 'bad')[n % 2]} day,{n % 2}\n" for n in range(40)]
        path = tmp_path / "texts.csv"
        path.write_text("".join([f"{rare},0\n", *lines]))
        fields = {"data.name": f"csv:{path}", "data.partition": "iid"}
        fields |= {"model.group": "fasttext", "data.max_len": 4, "data.tokens": where}
        fields["privacy.unit"] = EXAMPLE
        c = runs.digits("fedavg", rounds=2, **fields)
        return build.experiment(c, "cpu").dataset.tokens

    for rare in ("good day", "patient smithson"):
        assert tokens(rare, "~/vocabulary.txt") == (*text.SPECIAL, "day", "good")
    with refused("privacy.unit is 'example' and data.tokens is ''"):
        tokens("good day", "")
    with refused("data.tokens: no such file"):
        tokens("good day", str(tmp_path / "none.txt"))
