"""fastText, TextCNN and logistic regression: networks on texts, tokens [B, L].

Joulin et al., "Bag of Tricks for Efficient Text Classification", EACL 2017,
https://arxiv.org/abs/1607.01759. Kim, "Convolutional Neural Networks for Sentence
Classification", EMNLP 2014, https://arxiv.org/abs/1408.5882. Sizes, names and initial
values: the released code.

Deviations (docs/decisions.md#text-features):
  code: features are log-probabilities, so all negative; padding counts as words in the
    mean of fastText and in the windows of TextCNN. Here: `fasttext_code`,
    `textcnn_code`, which see texts as long as `data.max_len` says.
  here: features are the last linear layer's values, and padding changes nothing.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from jaxproto.core.types import PADDING, Array, Net
from jaxproto.errors import UserError
from jaxproto.models.dropout import Place, dropout, no_dropout
from jaxproto.models.from_modules import make_net
from jaxproto.models.layers import (
    CallContext,
    Chain,
    InitialDraws,
    Linear,
    kaiming_uniform,
)
from jaxproto.models.ops import Ops

FILTERS = 100  # of each size
SIZES = (3, 4, 5)  # tokens that a filter sees
RATE = 0.8  # of TextCNN's dropout


class TextSettings(NamedTuple):
    """Settings of a body on texts: treatment of padding, form of features, sizes."""

    counts: Callable[[Array], Array]  # tokens [B, L] -> whether each counts [B, L]
    features: Callable[[Array], Array]  # last layer [B, D] -> features [B, D]
    words: int = 0  # rows of the embedding
    width: int = 0  # of a word's vector and of the features
    dtype: str = "float32"  # of the body's arrays


CLEAN = TextSettings(lambda token_BL: token_BL != PADDING, lambda feat_BD: feat_BD)
CODE = TextSettings(lambda token_BL: jnp.ones_like(token_BL, bool), jax.nn.log_softmax)

NORMAL = InitialDraws.normal  # PyTorch's default of embeddings


class Embedding(nnx.Module):
    """A vector for each token; padding has zeros that are never trained.

    The gradient is as large as the table, and SGD reads both: more than half of the
    20 ms that a step of fastText takes with 30,000 words and 500 features on two CPU
    cores. Sorting tokens before their rows are added up was not faster.
    """

    def __init__(self, text: TextSettings, draws: InitialDraws, init=NORMAL):
        table = init(draws, (text.words, text.width))
        self.table = nnx.Param(table.at[PADDING].set(0))


def embed(table: Array, token: Array, dtype: str) -> Array:
    """Looks up the rows of tokens [B, L] in the table, zeros for padding."""
    real_BL1 = (token != PADDING)[..., None]
    return table[token].astype(dtype) * real_BL1.astype(dtype)


class Conv1d(nnx.Module):
    """Parameters of PyTorch's Conv1d; `max_over_time` applies them."""

    def __init__(self, inputs: int, outputs: int, size: int, draws: InitialDraws):
        fan_in = inputs * size
        self.kernel = nnx.Param(kaiming_uniform(draws, (size, inputs, outputs), fan_in))
        self.bias = nnx.Param(kaiming_uniform(draws, (outputs,), fan_in))


class FastText(nnx.Module):
    """Mean of the word vectors and, with `hidden`, a linear layer."""

    def __init__(self, text: TextSettings, draws: InitialDraws, hidden: bool = True):
        self.text, self.embedding = text, Embedding(text, draws)
        if hidden:
            self.fc1 = Linear(text.width, text.width, draws)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, L] to [B, width]; the mean of no word is 0."""
        length_B = jnp.sum(self.text.counts(x), 1)
        table = self.embedding.table[...]

        def total(x):
            return jnp.sum(embed(table, x, self.text.dtype), 1)

        total_BD = call.ops.cut(total, x, jnp.max(length_B))
        count_B1 = jnp.maximum(length_B, 1)[:, None]
        mean_BD = total_BD / count_B1.astype(self.text.dtype)
        feat_BD = self.fc1(mean_BD, call) if hasattr(self, "fc1") else mean_BD
        return self.text.features(feat_BD)


class TextCNN(nnx.Module):
    """Filters over 3, 4 and 5 words, their maxima over the text, a linear layer."""

    def __init__(self, text: TextSettings, draws: InitialDraws):
        self.text, self.embedding = text, Embedding(text, draws)
        for i, size in enumerate(SIZES):
            filters = Chain(Conv1d(text.width, FILTERS, size, draws))
            setattr(self, f"conv{i + 1}", filters)
        self.fc1 = Linear(len(SIZES) * FILTERS, text.width, draws)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, L] to [B, width]."""
        length_B = jnp.sum(self.text.counts(x), 1)
        missing = max(SIZES) - x.shape[1]
        x = jnp.pad(x, ((0, 0), (0, max(missing, 0))), constant_values=PADDING)
        filters = [
            getattr(getattr(self, f"conv{i + 1}"), "0") for i in range(len(SIZES))
        ]
        table = self.embedding.table[...]

        def best(x):
            x_BLD = embed(table, x, self.text.dtype)
            return max_over_time(x_BLD, length_B, filters, call.ops.words)

        best_BF = call.ops.cut(best, x, jnp.max(length_B))
        x = dropout(jax.nn.relu(best_BF), RATE, call)
        return self.text.features(self.fc1(x, call))


def max_over_time(
    x_BLD: Array, length_B: Array, filters: list[Conv1d], product: Callable[..., Array]
) -> Array:
    """Returns the largest output of each filter over a text [B, all filters].

    Windows lie within the text. A text shorter than a filter has one window, which
    zeros fill up. One product computes the output of every tap of every filter at every
    position, and sums of shifted outputs are those of windows: on CPU 1.8 times faster
    than products with copied windows, and 35 times faster than XLA's convolution in a
    loop.

    Args:
      x_BLD: Word vectors; zeros at padding.
      length_B: Number of words of each text.
      filters: Parameters of the filters of each size.
      product: Form of the matrix product.
    """
    batch, positions, width = x_BLD.shape
    kernels = [f.kernel[...].astype(x_BLD.dtype) for f in filters]
    taps = [kernel[j] for kernel in kernels for j in range(len(kernel))]
    outputs = product(x_BLD.reshape(-1, width), jnp.concatenate(taps, 1))
    by_tap = iter(jnp.split(outputs, len(taps), 1))
    best = []
    for f, kernel in zip(filters, kernels, strict=True):
        size = len(kernel)
        start_W = jnp.arange(positions - size + 1)
        shifted = [
            next(by_tap).reshape(batch, positions, -1)[:, j : j + len(start_W)]
            for j in range(size)
        ]
        valid_BW = start_W <= jnp.maximum(length_B - size, 0)[:, None]
        output_BWF = jnp.where(valid_BW[..., None], sum(shifted), -jnp.inf)
        best.append(jnp.max(output_BWF, 1) + f.bias[...].astype(x_BLD.dtype))
    return jnp.concatenate(best, -1)


def network(
    make: Callable[..., nnx.Module],
    settings: TextSettings,
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    *,
    vocab_size: int,
    compute_dtype: str = "float32",
    place: Place = no_dropout,
) -> Net:
    """Returns a network on texts whose word vectors are as wide as its features.

    Args:
      make: Function of (settings, draws) that makes the body, such as its class.
      settings: `CLEAN` or `CODE`.
      vocab_size: Rows of the embedding, padding and the unknown word among them.
      compute_dtype: Number format of the body's arrays.
      place: Placement of dropout.
    """
    if len(input_shape) != 1:
        raise UserError(
            f"networks on texts take tokens [length], but an input has shape "
            f"{tuple(input_shape)}. Use another network, or texts."
        )
    text = settings._replace(words=vocab_size, width=feat_dim, dtype=compute_dtype)
    body = functools.partial(make, text)
    return make_net(body, num_classes, feat_dim, ops, place=place)


fasttext = functools.partial(network, FastText, CLEAN)
fasttext_code = functools.partial(network, FastText, CODE)
text_logistic = functools.partial(
    network, functools.partial(FastText, hidden=False), CLEAN
)
textcnn = functools.partial(network, TextCNN, CLEAN)
textcnn_code = functools.partial(network, TextCNN, CODE)
