"""Texts: words and vocabulary.

Words and vocabulary are those that torchtext documents for `basic_english`.
"""

import numpy as np
from support import quick
from support.every import every
from support.refusal import refused

from jaxproto.core.types import PADDING, UNKNOWN
from jaxproto.data import dataset, text
from jaxproto.data.partitions.partition import (
    Partition,
)

quick_runs = quick.quick_runs  # a fixture of all tests here


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
    data = dataset.make_dataset("t", (np.array(texts), np.arange(len(texts)) % 2))
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
