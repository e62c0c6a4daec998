"""Texts in a federated run: words, vocabulary, every method.

Words and vocabulary are those that torchtext documents for `basic_english`.
"""

import jax
import numpy as np
import pytest
from support import quick, runs
from support.every import every
from support.fields import changed
from support.refusal import refused

from jaxproto import config
from jaxproto.core.types import PADDING, UNKNOWN
from jaxproto.data import registry, text
from jaxproto.data.partitions.registry import Partition
from jaxproto.experiment import build
from jaxproto.methods import METHODS
from jaxproto.methods.options import NETWORKS
from jaxproto.storage import records, workdir

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


@every(
    [
        ("Basic English, normalised!", "basic english , normalised !"),
        ('It\'s (1.5) "so";why?', "it ' s ( 1 . 5 ) so why ?"),
        ("a<br />b:c\t\nd", "a b c d"),
        ("ÄRGER u.s.", "ärger u . s ."),
        (' "; ', ""),
    ]
)
def test_words_are_those_of_basic_english(given, words):
    assert text.split(given) == words.split()


def test_the_vocabulary_is_sorted_by_frequency_then_by_the_alphabet():
    found = text.tokenize(["b a c", "c b", "<unk> zz zz zz zz"])
    count = text.frequent_words(found, [0, 1], 1)
    assert text.order_by_frequency(count) == (*text.SPECIAL, "b", "c", "a")
    assert text.order_by_frequency(count, 4) == (*text.SPECIAL, "b", "c")
    count = text.frequent_words(found, [2], 1)
    assert text.order_by_frequency(count) == (*text.SPECIAL, "zz")


def encoded(texts, train, test, public=None, **options):
    data = registry.make_dataset("t", (np.array(texts), np.arange(len(texts)) % 2))
    part = Partition((np.array(train),), (np.array(test),))
    return text.encode(data._replace(public=public), part, **options)


def test_tokens_are_words_then_padding_and_what_is_lost_is_told():
    """Words of test texts alone are unknown, those of public ones known."""
    texts = ["a b a", "", "b c a b b"]
    data = encoded(texts, [0, 1], [2], max_len=4)
    assert data.tokens == (*text.SPECIAL, "a", "b")
    a, b = 2, 3
    rows = [[a, b, a, PADDING], [PADDING] * 4, [b, UNKNOWN, a, b]]
    assert data.x.dtype == np.int32 and data.x.tolist() == rows
    assert data.notes[-1] == (
        "t: 4 tokens in the vocabulary; 1 of 4 words of test texts are unknown; "
        "of 3 texts, 1 have no word and 1 are cut after 4 words"
    )
    data = encoded([*texts, "d d d"], [0, 1], [2], public=np.array([3]))
    assert data.tokens == (*text.SPECIAL, "d", "a", "b")
    data = encoded(texts, [0, 1], [2], vocab_size=3, max_len=4)
    assert data.x[0].tolist() == [a, UNKNOWN, a, PADDING]
    with refused("data.vocab_size is 2. Give a number from 3 on"):
        encoded(texts, [0, 1], [2], vocab_size=2)


def test_a_vocabulary_is_saved_with_a_token_per_line_and_read_again(tmp_path):
    tokens = (*text.SPECIAL, "ü", "'", "�")
    text.write(tmp_path / "v.txt", tokens)
    lines = (tmp_path / "v.txt").read_bytes().decode().split("\n")
    assert lines == [*tokens, ""] and text.read(tmp_path / "v.txt") == tokens
    assert text.read(tmp_path / "none.txt") is None
    for damaged in (b"<pad>\n<unk>\nhal", b"the\n", b"\xff\n"):
        (tmp_path / "v.txt").write_bytes(damaged)
        with refused("v.txt is damaged: a vocabulary begins with the lines"):
            text.read(tmp_path / "v.txt")


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
