"""Texts as tokens: tokeniser, vocabulary of the training texts, token tables.

Words are those of torchtext's tokeniser `basic_english`, as in the released code of
TinyProto (docs/decisions.md#texts).

Deviations:
  code: one token, 0, stands for padding and for unknown words, and the vocabulary is
    that of all texts, test ones too. Here: padding is 0 and an unknown word 1, which
    has a vector of its own, and words are those of the training texts alone.
"""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from jaxproto import errors
from jaxproto.data import host_memory
from jaxproto.data.dataset import Dataset
from jaxproto.data.partitions.registry import Partition
from jaxproto.io import atomic
from jaxproto.types import PADDING, SPECIAL, UNKNOWN

REPLACED = {  # in this order, after lower case; then blanks separate the words
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
    which: np.ndarray  # [T] int32, index into `words`
    length: np.ndarray  # [N] int64, number of words of each text


def split(text: str) -> list[str]:
    """Splits a text into words, as torchtext's `basic_english` does.

    Lower case; ' . , ( ) ! ? become words, ; : and <br /> become blanks, " is removed.
    """
    text = text.lower()
    for old, new in REPLACED.items():
        text = text.replace(old, new)
    return text.split()


def tokenize(texts: Sequence[str]) -> TokenizedTexts:
    """Splits all texts into words."""
    # word -> index, in order of appearance
    number: defaultdict[str, int] = defaultdict()
    number.default_factory = number.__len__
    which, length = [], np.zeros(len(texts), np.int64)
    for n, text in enumerate(texts):
        words = np.fromiter(map(number.__getitem__, split(text)), np.int32)
        which.append(words)
        length[n] = len(words)
    return TokenizedTexts(tuple(number), np.concatenate(which), length)


def vocabulary(
    found: TokenizedTexts, rows: np.ndarray, size: int = 0
) -> tuple[str, ...]:
    """Returns the tokens: padding, unknown, then words by descending frequency.

    Args:
      found: words of all texts.
      rows: texts whose words count.
      size: largest number of tokens; 0 is all words. Equally frequent words are in
        alphabetical order.
    """
    return order_by_frequency(frequent_words(found, rows, 1), size)


def frequent_words(
    found: TokenizedTexts, rows: np.ndarray, least: int
) -> dict[str, int]:
    """Returns the frequency of the words that are in at least `least` of the texts."""
    chosen_N = np.zeros(len(found.length), bool)
    chosen_N[rows] = True
    text_T = np.repeat(np.arange(len(found.length)), found.length)
    kept = chosen_N[text_T]
    which, text, number = found.which[kept], text_T[kept], len(found.words)
    pairs = np.unique(text * max(number, 1) + which)  # a word once for each text
    texts = np.bincount(pairs % max(number, 1), minlength=number)
    often = np.bincount(which, minlength=number)
    return {found.words[i]: int(often[i]) for i in np.flatnonzero(texts >= least)}


def order_by_frequency(count: Mapping[str, int], size: int = 0) -> tuple[str, ...]:
    """Returns the tokens of counted words; `size` as in `vocabulary`."""
    order = sorted(count, key=lambda word: (-count[word], word))
    return (*SPECIAL, *(w for w in order if w not in SPECIAL))[: size or None]


def token_table(
    found: TokenizedTexts, tokens: Sequence[str], max_len: int
) -> np.ndarray:
    """Makes tokens [N, max_len] int32: the first words of each text, then padding."""
    number = {word: i for i, word in enumerate(tokens) if i > UNKNOWN}
    token = np.array([number.get(w, UNKNOWN) for w in found.words], np.int32)
    first_N = np.cumsum(found.length) - found.length
    place = np.arange(len(found.which)) - np.repeat(first_N, found.length)
    token_NL = np.full((len(found.length), max_len), PADDING, np.int32)
    filled_NL = np.arange(max_len) < found.length[:, None]
    token_NL[filled_NL] = token[found.which[place < max_len]]
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

    Other data sets are returned unchanged. A text without words is all padding. Numbers
    of cut texts and unknown words become a sentence in `Dataset.notes`.

    Args:
      dataset: of texts, or of any other inputs.
      partition: clients' training texts, and public ones, give the words.
      vocab_size: largest number of tokens, special ones included; 0 is all.
      max_len: number of first words of a text that are kept.
      known: vocabulary of a resumed run; None makes one.
    """
    if dataset.x.dtype.kind not in "UT":
        return dataset
    _check(vocab_size, max_len)
    size = len(dataset.x) * max_len * 5  # bytes of tokens and of the mask of words
    way = "choose a smaller data.max_len"
    host_memory.check_memory(
        f"{len(dataset.x)} texts of data.max_len={max_len} words", size, way
    )
    found = tokenize(dataset.x.tolist())
    rows = [*partition.train, *([] if dataset.public is None else [dataset.public])]
    tokens = known
    if tokens is None:
        tokens = vocabulary(found, np.concatenate(rows), vocab_size)
    if len(tokens) <= len(SPECIAL):
        raise errors.UserError(
            f"{dataset.name}: no training text has a word. Check the column of texts."
        )
    token_NL = token_table(found, tokens, max_len)
    notes = (*dataset.notes, _note(dataset, partition, found, tokens, token_NL))
    return dataset._replace(x=token_NL, notes=notes, tokens=tokens)


def _check(vocab_size, max_len):
    if vocab_size and vocab_size <= len(SPECIAL):
        raise errors.UserError(
            f"data.vocab_size is {vocab_size}. Give a number from "
            f"{len(SPECIAL) + 1} on (padding, the unknown word, a word), or 0 for all "
            "words of the training texts."
        )
    if max_len < 1:
        raise errors.UserError(
            f"data.max_len is {max_len}. Give a number of words from 1 on, like 200."
        )


def _note(dataset, partition, found, tokens, token_NL):
    tested = token_NL[np.unique(np.concatenate(partition.test))]
    unknown, words = (tested == UNKNOWN).sum(), (tested != PADDING).sum()
    empty, cut = (found.length == 0).sum(), (found.length > token_NL.shape[1]).sum()
    return (
        f"{dataset.name}: {len(tokens):,} tokens in the vocabulary; {unknown:,} of "
        f"{words:,} words of test texts are unknown; of {len(token_NL):,} texts, "
        f"{empty:,} have no word and {cut:,} are cut after {token_NL.shape[1]} words"
    )


def write(path: str | os.PathLike, tokens: Sequence[str]) -> None:
    """Writes a vocabulary, one token per line: line i + 1 is token i."""
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
            f"{' and '.join(SPECIAL)}. Move its folder away or choose another with "
            "--workdir."
        )
    return tuple(tokens)
