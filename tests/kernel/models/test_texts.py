"""Networks on texts: sizes, padding, and what they compute, against numpy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.every import every
from support.fast_jit import jit
from support.networks import CODE, TEXT, build, close, output, shapes, size

from jaxproto.core.types import PADDING
from jaxproto.models import text
from jaxproto.models.ops import ops

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it

WORDS, DIM = 30, 12
ORDERED = ("lstm", "gru", "bilstm", "transformer+heads=4")  # read words in their order
LENGTHS = (0, 1, 2, 3, 4, 5, 9)  # of the texts below; filters see 3, 4 and 5 words


def on_texts(name, length=9, **options):
    return build(name, (length,), 4, DIM, vocab_size=WORDS, **options)


@functools.cache
def started(name):
    """Parameters, the same for every length of text; no network has statistics."""
    return jit(on_texts(name).init)(jax.random.key(1))[0]


def untraced(name, length, train, **options):
    """Parameters, tokens, key -> features."""
    net = on_texts(name, length, **options)
    return lambda params, x, key=None: net.apply(params, {}, x, train, key).feat


@functools.cache
def features(name, length=9, train=False, **options):
    return jit(untraced(name, length, train, **options))


@functools.cache
def grads(name, length=9):
    """Parameters, tokens -> gradient of the sum of the features' cubes.

    Squares of normalised features have a constant sum.
    """
    feat = untraced(name, length, True)
    return jit(jax.grad(lambda *given: jnp.sum(feat(*given) ** 3)))


def texts(length):
    """Words from 1 on, and padding behind them."""
    word_BL = np.random.default_rng(0).integers(1, WORDS, (len(LENGTHS), max(LENGTHS)))
    there_BL = np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]
    more = ((0, 0), (0, length - max(LENGTHS)))
    return jnp.asarray(np.pad(np.where(there_BL, word_BL, PADDING), more), jnp.int32)


# As PyTorch counts: bodies at d = 500 with 98,635 words; without the embedding.
COUNTS = {"fasttext": (49_568_000, 250_500), "textcnn": (50_068_300, 750_800)}


@every(TEXT + CODE)
def test_parameter_counts_are_the_released_ones_and_any_length_fits(name):
    params, norm = shapes(build(name, (200,), 4, vocab_size=98_635))
    body, table = size(params["body"]), size(params["body"]["embedding"])
    assert (body, body - table) == COUNTS[name.removesuffix("_code")]
    assert size(params["head"]) == 500 * 4 + 4 and not norm
    for length in (1, 4, 200):
        net = on_texts(name, length)
        out = output(net, shapes(net), (3, length), dtype=jnp.int32)
        assert (out.feat.shape, out.logits.shape) == ((3, DIM), (3, 4))


@every([*TEXT, *ORDERED])
def test_padding_changes_no_feature_and_no_gradient(name):
    """Texts of padding alone have finite ones."""
    params, found = started(name), []
    for n in (9, 14, 60):  # of 60, the first 32 are computed
        given = params, texts(n)
        found.append((features(name, n)(*given), grads(name, n)(*given)))
    for other in found[1:]:
        close(other, found[0])
    x = jnp.full((len(LENGTHS), 9), PADDING, jnp.int32)
    found = features(name)(params, x), grads(name)(params, x)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found))


@every([*TEXT, *CODE, *ORDERED])
def test_texts_of_any_length_are_read_to_their_end(name):
    """Against the form of the operation that cuts nothing."""
    params = started(name)
    word_BL = np.random.default_rng(1).integers(1, WORDS, (3, 60))
    for used in (31, 32, 33, 60):
        x = jnp.asarray(np.where(np.arange(60) < used, word_BL, PADDING), jnp.int32)
        cut, uncut = (features(name, 60, ops=o)(params, x) for o in (ops.CPU, ops.LAX))
        np.testing.assert_allclose(cut, uncut, 1e-5, 1e-5)


@every(TEXT + CODE)
def test_the_vector_of_padding_is_zero_and_gets_no_gradient(name):
    """In bfloat16 features are close to those of float32."""
    params, x = started(name), texts(9)
    assert np.all(params["body"]["embedding"]["table"][PADDING] == 0)
    grad = grads(name)(params, x)["body"]["embedding"]["table"]
    assert np.all(grad[PADDING] == 0) and np.any(grad[1:] != 0)
    if name in CODE:
        return
    exact = features(name)(params, x)
    rough = features(name, compute_dtype="bfloat16")(params, x)
    assert 0 < np.abs(exact - rough).max() < 0.05 * np.abs(exact).max()


@every(CODE)
def test_released_variants_see_padding_and_give_log_probabilities(name):
    """As released: features are log-softmax, and padding counts among the words."""
    params = started(name)
    short, long = (features(name, n)(params, texts(n)) for n in (9, 14))
    np.testing.assert_allclose(np.exp(short).sum(1), 1, atol=1e-5)
    assert np.abs(short - long)[-1].max() > 1e-3


def test_fasttext_is_a_linear_layer_on_the_mean_of_the_words():
    """As released, with the mean over the words that are there."""
    params = started("fasttext")
    body = jax.tree.map(np.asarray, params["body"])
    table, layer = body["embedding"]["table"], body["fc1"]
    feat = features("fasttext")(params, texts(9))
    for row, length, got in zip(np.asarray(texts(9)), LENGTHS, feat, strict=True):
        mean = sum((table[t] for t in row[:length]), np.zeros(DIM)) / max(length, 1)
        np.testing.assert_allclose(got, mean @ layer["kernel"] + layer["bias"], 1e-4)


def test_textcnn_takes_the_maximum_over_windows_within_the_text():
    """As released, as a loop: 100 filters over 3, 4 and 5 words, ReLU, maximum."""
    params = started("textcnn")
    body = jax.tree.map(np.asarray, params["body"])
    feat = features("textcnn")(params, texts(9))
    for row, length, got in zip(np.asarray(texts(9)), LENGTHS, feat, strict=True):
        vector_LD, best = body["embedding"]["table"][row], []
        for name, words in (("conv1", 3), ("conv2", 4), ("conv3", 5)):
            filters = body[name]["0"]
            answers = [
                np.einsum("ld,ldf->f", vector_LD[i : i + words], filters["kernel"])
                for i in range(max(length - words, 0) + 1)
            ]
            best.append(np.maximum(np.max(answers, 0) + filters["bias"], 0))
        expected = np.concatenate(best) @ body["fc1"]["kernel"] + body["fc1"]["bias"]
        np.testing.assert_allclose(got, expected, atol=1e-4)


def test_textcnn_drops_out_four_fifths_before_its_last_layer():
    """As released: Dropout(0.8) on the 300 maxima; without a key there is none."""
    assert (text.FILTERS, text.SIZES, text.RATE) == (100, (3, 4, 5), 0.8)
    params, train = started("textcnn"), features("textcnn", 9, True)
    x = jnp.tile(texts(9)[-1:], (200, 1))
    still = train(params, x)
    assert np.all(still == still[0])
    dropped = train(params, x, jax.random.key(0))
    assert len(np.unique(dropped[:, 0])) > 150
    spread = dropped.std(0).mean() / np.sqrt(200)
    assert np.abs(dropped.mean(0) - still[0]).mean() < 2 * spread  # grown by 1 / 0.2
    evaluated = features("textcnn")(params, x, jax.random.key(0))
    np.testing.assert_allclose(evaluated, still, atol=1e-5)
