"""Texts as tokens: tokeniser, vocabulary of the training texts, token tables.

Words are those of torchtext's tokeniser `basic_english`, as in the released code of
TinyProto (docs/decisions.md#texts).

Deviations:
  code: token 0 stands for padding and for unknown words, and the vocabulary has the
    words of all texts, test texts included. Here: padding is token 0, unknown words are
    token 1 with a vector of its own, and the vocabulary has only the words of the
    training texts.
"""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxproto import errors
from jaxproto.core.types import PADDING, SPECIAL, UNKNOWN
from jaxproto.data import host_memory
from jaxproto.data.dataset import Dataset
from jaxproto.data.partitions.partition import (
    Partition,
)
from jaxproto.io import atomic

REPLACED = {  # in this order, in lower-case text; then blanks separate the words
    "'": " ' ",
    '"': "",
    ".": " . ",
    "<br />": " ",
    ",": " , ",
    "(": " ( ",
    ")": " ) ",
    "!": " ! ",
    "?": " ? ",
    ";": " ",
    ":": " ",
}


class TokenizedTexts(NamedTuple):
    """Words of all texts, concatenated."""

    words: tuple[str, ...]  # distinct words
    which: np.ndarray  # [T] int32, index into `words` of each word in the texts
    length: np.ndarray  # [N] int64, number of words of each text


def split(text: str) -> list[str]:
    """Splits a text into words in lower case, as torchtext's `basic_english` does."""
    text = text.lower()
    for old, new in REPLACED.items():
        text = text.replace(old, new)
    return text.split()


def tokenize(texts: Sequence[str]) -> TokenizedTexts:
    """Splits all texts into words."""
    # word -> index, in order of appearance
    index: defaultdict[str, int] = defaultdict()
    index.default_factory = index.__len__
    which = [np.fromiter(map(index.__getitem__, split(t)), np.int32) for t in texts]
    length = np.array([len(words) for words in which], np.int64)
    return TokenizedTexts(tuple(index), np.concatenate(which), length)


def frequent_words(
    texts: TokenizedTexts, rows: np.ndarray, min_texts: int
) -> dict[str, int]:
    """Returns the frequency of words that are in at least `min_texts` of the rows."""
    chosen_N = np.zeros(len(texts.length), bool)
    chosen_N[rows] = True
    text_T = np.repeat(np.arange(len(texts.length)), texts.length)
    kept_T = chosen_N[text_T]
    which, text, number = texts.which[kept_T], text_T[kept_T], len(texts.words)
    pairs = np.unique(text * max(number, 1) + which)  # a word once for each text
    num_texts = np.bincount(pairs % max(number, 1), minlength=number)
    count = np.bincount(which, minlength=number)
    common = np.flatnonzero(num_texts >= min_texts)
    return {texts.words[i]: int(count[i]) for i in common}


def order_by_frequency(count: Mapping[str, int], size: int = 0) -> tuple[str, ...]:
    """Returns the tokens: padding, unknown, then words by descending frequency.

    Args:
      count: word -> frequency. Equally frequent words are in alphabetical order.
      size: largest number of tokens; 0 is all words.
    """
    order = sorted(count, key=lambda word: (-count[word], word))
    return (*SPECIAL, *(w for w in order if w not in SPECIAL))[: size or None]


def token_table(
    texts: TokenizedTexts, tokens: Sequence[str], max_len: int
) -> np.ndarray:
    """Makes tokens [N, max_len] int32: the first words of each text, then padding."""
    number = {word: i for i, word in enumerate(tokens) if i > UNKNOWN}
    token = np.array([number.get(w, UNKNOWN) for w in texts.words], np.int32)
    first_N = np.cumsum(texts.length) - texts.length
    position_T = np.arange(len(texts.which)) - np.repeat(first_N, texts.length)
    token_NL = np.full((len(texts.length), max_len), PADDING, np.int32)
    filled_NL = np.arange(max_len) < texts.length[:, None]
    token_NL[filled_NL] = token[texts.which[position_T < max_len]]
    return token_NL


def encode(
    dataset: Dataset,
    partition: Partition,
    *,
    vocab_size: int = 0,
    max_len: int = 200,
    known: tuple[str, ...] | None = None,
) -> Dataset:
    """Encodes the texts of a data set as tokens [N, max_len], with their vocabulary.

    Other data sets are returned unchanged. A text without words is all padding. A
    sentence in `Dataset.notes` has the numbers of cut texts and of unknown words.

    Args:
      dataset: data set of texts, or of any other inputs.
      partition: its training texts, and public texts, give the vocabulary.
      vocab_size: largest number of tokens, special ones included; 0 is all.
      max_len: number of first words of a text that are kept.
      known: vocabulary of a resumed run; None makes one.
    """
    if dataset.x.dtype.kind not in "UT":
        return dataset
    if 0 < vocab_size <= len(SPECIAL):
        raise errors.UserError(
            f"data.vocab_size is {vocab_size}. Give a number from "
            f"{len(SPECIAL) + 1} on (padding, the unknown word, a word), or 0 for all "
            "words of the training texts."
        )
    size = len(dataset.x) * max_len * 5  # bytes of tokens and of the mask of words
    advice = "choose a smaller data.max_len"
    host_memory.check_memory(
        f"{len(dataset.x)} texts of data.max_len={max_len} words", size, advice
    )
    texts = tokenize(dataset.x.tolist())
    rows = [*partition.train, *([] if dataset.public is None else [dataset.public])]
    tokens = known
    if tokens is None:
        count = frequent_words(texts, np.concatenate(rows), 1)
        tokens = order_by_frequency(count, vocab_size)
    if len(tokens) <= len(SPECIAL):
        raise errors.UserError(
            f"{dataset.name}: no training text has a word. Check the column of texts."
        )
    token_NL = token_table(texts, tokens, max_len)
    notes = (*dataset.notes, _note(dataset, partition, texts, tokens, token_NL))
    return dataset._replace(x=token_NL, notes=notes, tokens=tokens)


def _note(dataset, partition, texts, tokens, token_NL):
    test_NL = token_NL[np.unique(np.concatenate(partition.test))]
    unknown, words = (test_NL == UNKNOWN).sum(), (test_NL != PADDING).sum()
    empty, cut = (texts.length == 0).sum(), (texts.length > token_NL.shape[1]).sum()
    return (
        f"{dataset.name}: {len(tokens):,} tokens in the vocabulary; {unknown:,} of "
        f"{words:,} words of test texts are unknown; of {len(token_NL):,} texts, "
        f"{empty:,} have no word and {cut:,} are cut after {token_NL.shape[1]} words"
    )


def write(path: str | os.PathLike, tokens: Sequence[str]) -> None:
    """Writes a vocabulary, one token per line: line i + 1 has token i."""
    atomic.write(path, ("\n".join(tokens) + "\n").encode())


def read(path: str | os.PathLike) -> tuple[str, ...] | None:
    """Reads the vocabulary in a file; None if there is no such file."""
    if not os.path.exists(path):
        return None
    try:
        *tokens, last = atomic.read(path).decode().split("\n")
    except (OSError, UnicodeDecodeError):
        tokens, last = [], "?"
    if last or tuple(tokens[: len(SPECIAL)]) != SPECIAL:
        raise errors.UserError(
            f"{path} is damaged: a vocabulary begins with the lines "
            f"{' and '.join(SPECIAL)}. Give another file as data.tokens or, if it is "
            "of this run, choose another folder with --workdir."
        )
    return tuple(tokens)
