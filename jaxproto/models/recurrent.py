"""LSTM, bidirectional LSTM and GRU on texts, given as tokens [B, L].

Hochreiter, Schmidhuber, "Long Short-Term Memory", Neural Computation 1997,
https://doi.org/10.1162/neco.1997.9.8.1735. Cho et al., "Learning Phrase Representations
using RNN Encoder-Decoder for Statistical Machine Translation", EMNLP 2014,
https://arxiv.org/abs/1406.1078. Sizes, names and initial values: HtFLlib.

Deviations:
  code: the LSTM's features are its outputs at the last position of the longest text of
    a batch, which are zeros for all shorter texts. The bidirectional LSTM reads
    padding. Its features are both directions' outputs at the last word, where the
    backward one has read a single word. Features of LSTM and GRU are log-probabilities.
    Here: states after the last word, and of the backward direction after the first;
    padding changes nothing.
  code: dropout of features. Here: on the logits' path only.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from jaxproto.core.types import Array, Net
from jaxproto.models.dropout import RATE, Place, dropout, logits_only, no_dropout
from jaxproto.models.layers import (
    CallContext,
    InitialDraws,
    Linear,
    identity,
    kaiming_uniform,
    relu,
)
from jaxproto.models.ops import Ops
from jaxproto.models.text import CLEAN, Embedding, TextSettings, embed, network

State = tuple[Array, ...]  # [B, H] each, the output first


class Cell(NamedTuple):
    """Recurrent cell in PyTorch's order of gates."""

    gates: int  # number of gates
    states: int  # number of arrays of the state
    step: Callable[[State, Array, Array], State]  # state, gates of input and of state


def lstm_step(state: State, x: Array, h: Array) -> State:
    """Computes the next output and memory of an LSTM."""
    i, f, g, o = jnp.split(x + h, 4, -1)
    sigmoid = jax.nn.sigmoid
    memory = sigmoid(f) * state[1] + sigmoid(i) * jnp.tanh(g)
    return sigmoid(o) * jnp.tanh(memory), memory


def gru_step(state: State, x: Array, h: Array) -> State:
    """Computes the next output of a GRU."""
    (r, z, n), (r_h, z_h, n_h) = (jnp.split(gates, 3, -1) for gates in (x, h))
    r, z = jax.nn.sigmoid(r + r_h), jax.nn.sigmoid(z + z_h)
    return ((1 - z) * jnp.tanh(n + r * n_h) + z * state[0],)


LSTM_CELL, GRU_CELL = Cell(4, 2, lstm_step), Cell(3, 1, gru_step)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def recur(cell: Cell, x: Array, mask: Array, weight: Array, bias: Array) -> Array:
    """Applies a cell along a text, from a state of zeros.

    The gradient is written out because XLA's own adds up the gradient of the weights
    after every position; here one product over all positions computes it.

    Args:
      cell: Cell to apply.
      x: Gates of the inputs [L, B, gates * H].
      mask: Positions that count [L, B, 1]; others leave the state as it is.
      weight: Weights of the state [H, gates * H].
      bias: Biases of the state's gates [gates * H].

    Returns:
      The output at each position [L, B, H].
    """
    return forward(cell, x, mask, weight, bias)[0]


def forward(cell, x, mask, weight, bias):
    """Returns the outputs, and the values for the gradient."""

    def step(state, inputs):
        x, mask = inputs
        new = cell.step(state, x, state[0] @ weight + bias)
        after = tuple(jnp.where(mask, a, b) for a, b in zip(new, state, strict=True))
        return after, (after[0], state)

    start = jnp.zeros((x.shape[1], weight.shape[0]), x.dtype)
    _, (out, before) = lax.scan(step, (start,) * cell.states, (x, mask))
    return out, (x, mask, weight, bias, before)


def backward(cell, kept, grad):
    """Computes the gradients of inputs, weights and bias."""
    x, mask, weight, bias, before = kept

    def step(grad_after, inputs):
        state, x, h, mask, grad = inputs
        grad_after = (grad_after[0] + grad, *grad_after[1:])
        grad_new = tuple(jnp.where(mask, a, 0) for a in grad_after)
        grad_before, grad_x, grad_h = jax.vjp(cell.step, state, x, h)[1](grad_new)
        unmasked = tuple(jnp.where(mask, 0, a) for a in grad_after)
        grad_before = tuple(map(jnp.add, grad_before, unmasked))
        grad_output = grad_before[0] + grad_h @ weight.T
        return (grad_output, *grad_before[1:]), (grad_x, grad_h)

    start = tuple(jnp.zeros_like(state[0]) for state in before)
    inputs = before, x, before[0] @ weight + bias, mask, grad
    _, (grad_x, grad_h) = lax.scan(step, start, inputs, reverse=True)
    grad_weight = jnp.einsum("lbh,lbg->hg", before[0], grad_h)
    return grad_x, None, grad_weight, grad_h.sum((0, 1))


recur.defvjp(forward, backward)


class Recurrent(nnx.Module):
    """PyTorch's LSTM or GRU with as many units as inputs."""

    def __init__(
        self,
        cell: Cell,
        width: int,
        layers: int,
        bidirectional: bool,
        draws: InitialDraws,
    ):
        self.cell, self.layers = cell, layers
        self.directions = ("", "_reverse") if bidirectional else ("",)
        gates = cell.gates * width
        for i in range(layers):
            inputs = width * (len(self.directions) if i else 1)
            for suffix in (f"l{i}{direction}" for direction in self.directions):
                for name, shape in (
                    ("weight_ih", (inputs, gates)),
                    ("weight_hh", (width, gates)),
                    ("bias_ih", (gates,)),
                    ("bias_hh", (gates,)),
                ):
                    param = nnx.Param(kaiming_uniform(draws, shape, width))
                    setattr(self, f"{name}_{suffix}", param)

    def __call__(self, x: Array, mask: Array, call: CallContext) -> Array:
        """Maps [L, B, width] to the last outputs of all directions [B, ...]."""
        for i in range(self.layers):
            x = dropout(x, RATE, call) if i else x
            outs = [self.run(f"l{i}{name}", x, mask, call) for name in self.directions]
            x = jnp.concatenate(outs, -1)
        last = [out[-1] if n == 0 else out[0] for n, out in enumerate(outs)]
        return jnp.concatenate(last, -1)

    def run(self, suffix, x, mask, call):
        """Returns the outputs of a layer in one direction [L, B, H]."""
        orient = jnp.flip if suffix.endswith("reverse") else lambda x, axis: x
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        params = (getattr(self, f"{n}_{suffix}")[...].astype(x.dtype) for n in names)
        weight, recurrent_weight, bias, recurrent_bias = params
        gates = call.ops.product(x.reshape(-1, x.shape[-1]), weight) + bias
        gates = orient(gates.reshape(*x.shape[:2], -1), 0)
        mask = orient(mask, 0)
        out = recur(self.cell, gates, mask, recurrent_weight, recurrent_bias)
        return orient(out, 0)


class RecurrentNet(nnx.Module):
    """Word vectors through recurrent layers; features are the last outputs.

    Args:
      names: Names of the embedding and of the recurrent layers in the released code.
    """

    def __init__(
        self,
        cell: Cell,
        names: tuple[str, ...],
        text: TextSettings,
        draws: InitialDraws,
        *,
        layers: int = 2,
        bidirectional: bool = False,
        activation: Callable = identity,
    ):
        self.text, self.names, self.activation = text, names, activation
        setattr(self, names[0], Embedding(text, draws))
        recurrent_layers = Recurrent(cell, text.width, layers, bidirectional, draws)
        setattr(self, names[1], recurrent_layers)
        if bidirectional:
            self.fc1 = Linear(2 * text.width, text.width, draws)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, L] to [B, width]."""
        mask_BL = self.text.counts(x)
        embedding, layers = (getattr(self, name) for name in self.names)
        table = embedding.table[...]

        def last(x):
            words_LBD = embed(table, x, self.text.dtype).swapaxes(0, 1)
            return layers(words_LBD, mask_BL.T[: x.shape[1], :, None], call)

        x = call.ops.cut(last, x, jnp.max(jnp.sum(mask_BL, 1)))
        x = self.fc1(x, call) if hasattr(self, "fc1") else self.activation(x, call)
        return self.text.features(x)


def recurrent(
    make: Callable[..., nnx.Module],
    place: Place,
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    *,
    vocab_size: int,
    compute_dtype: str = "float32",
) -> Net:
    """Recurrent network on texts whose features are its last outputs."""
    options: dict[str, Any] = {"vocab_size": vocab_size, "compute_dtype": compute_dtype}
    sizes = input_shape, num_classes, feat_dim, ops
    return network(make, CLEAN, *sizes, place=place, **options)


LSTM = partial(RecurrentNet, LSTM_CELL, ("embedding", "lstm"), activation=relu)
NAMES = "word_embeddings", "lstm_layer"
BILSTM = partial(RecurrentNet, LSTM_CELL, NAMES, layers=1, bidirectional=True)
GRU = partial(RecurrentNet, GRU_CELL, ("embedding", "gru"))
lstm = partial(recurrent, LSTM, logits_only)
bilstm = partial(recurrent, BILSTM, no_dropout)
gru = partial(recurrent, GRU, logits_only)
