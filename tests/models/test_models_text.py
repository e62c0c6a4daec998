"""Networks on texts: sizes, golden numbers, what padding changes, error messages."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.refusal import refused

from jaxproto import models
from jaxproto.models import text
from jaxproto.nn import ops
from jaxproto.types import PADDING

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it

TEXT = models.GROUPS["text"]
CODE = models.GROUPS["text_code"]
WORDS, DIM = 30, 12
LENGTHS = (0, 1, 2, 3, 4, 5, 9)  # of the texts below; filters see 3, 4 and 5 words


def build(name, length=9, dim=DIM, words=WORDS, **options):
    shape = {"input_shape": (length,), "num_classes": 4}
    return models.build(name, **shape, feat_dim=dim, vocab_size=words, **options)


@functools.cache
def started(name):
    """Parameters, the same for every length of text; no network has statistics."""
    return jax.jit(build(name).init)(jax.random.key(1))[0]


@functools.cache
def features(name, length=9, train=False, **options):
    """Parameters, tokens, key -> features."""
    net = build(name, length, **options)

    def feat(params, x, key=None):
        return net.apply(params, {}, x, train, key).feat

    return jax.jit(feat)


@functools.cache
def grads(name, length=9):
    """Parameters, tokens -> gradient of the sum of the squared features."""
    feat = features(name, length, True)
    return jax.jit(jax.grad(lambda params, x: jnp.sum(feat(params, x) ** 2)))


def texts(length):
    """Words from 1 on, and padding behind them."""
    word_BL = np.random.default_rng(0).integers(1, WORDS, (len(LENGTHS), max(LENGTHS)))
    there_BL = np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]
    more = ((0, 0), (0, length - max(LENGTHS)))
    return jnp.asarray(np.pad(np.where(there_BL, word_BL, PADDING), more), jnp.int32)


def size(tree):
    return sum(leaf.size for leaf in jax.tree.leaves(tree))


# ---------------------------------------------------------------------- sizes and trees


@pytest.mark.parametrize(
    ("name", "whole", "rest"),
    [("fasttext", 49_568_000, 250_500), ("textcnn", 50_068_300, 750_800)],
)
@pytest.mark.parametrize("variant", ["", "_code"])
def test_parameter_counts_are_the_released_ones(name, whole, rest, variant):
    """As PyTorch counts: bodies at d = 500 with 98,635 words; without the embedding."""
    net = build(name + variant, length=200, dim=500, words=98_635)
    params, norm = jax.eval_shape(net.init, jax.random.key(0))
    assert size(params["body"]) == whole
    assert size(params["body"]) - size(params["body"]["embedding"]) == rest
    assert size(params["head"]) == 500 * 4 + 4 and not norm


@pytest.mark.parametrize("name", [*TEXT, *CODE])
@pytest.mark.parametrize("length", [1, 4, 200])
@pytest.mark.parametrize("dtype", models.registry.PRECISIONS)
def test_apply_keeps_shapes_and_types(name, length, dtype):
    net = build(name, length, compute_dtype=dtype)
    params, norm = jax.eval_shape(net.init, jax.random.key(0))
    x = jax.ShapeDtypeStruct((3, length), jnp.int32)
    out = jax.eval_shape(lambda *a: net.apply(*a, True), params, norm, x)
    assert (out.feat.shape, out.logits.shape) == ((3, DIM), (3, 4))
    assert {a.dtype.name for a in jax.tree.leaves((params, out))} == {"float32"}


def test_clients_alternate_between_fasttext_and_textcnn():
    assert models.assign("text", range(4)) == ("fasttext", "textcnn") * 2


PYTORCH = {  # of the released code, with the shapes there (D = 12, 30 words)
    "fasttext": {"embedding.weight": (30, 12), "fc1.weight": (12, 12)},
    "textcnn": {
        "embedding.weight": (30, 12),
        "conv1.0.weight": (100, 12, 3),
        "conv3.0.weight": (100, 12, 5),
        "conv3.0.bias": (100,),
        "fc1.weight": (12, 300),
    },
}


@pytest.mark.parametrize("name", PYTORCH)
def test_names_and_shapes_are_those_of_the_released_code(name):
    """HtFLlib's fastText and TextCNN as PyTorch modules."""
    entries = models.to_torch(jax.tree.map(np.asarray, started(name)), {})
    for entry, shape in PYTORCH[name].items():
        assert entries[f"base.{entry}"].shape == shape


# ------------------------------------------------------------------------------ padding


@pytest.mark.parametrize("name", TEXT)
def test_padding_changes_no_feature_and_no_gradient(name):
    params, found = started(name), []
    for n in (9, 14, 60):  # of 60, the first 32 are computed
        given = params, texts(n)
        found.append((features(name, n)(*given), grads(name, n)(*given)))
    for other in found[1:]:
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-4), found[0], other
        )


@pytest.mark.parametrize("name", [*TEXT, *CODE])
def test_texts_of_any_length_are_read_to_their_end(name):
    """Against the form of the operation that cuts nothing."""
    params = started(name)
    word_BL = np.random.default_rng(1).integers(1, WORDS, (3, 60))
    for used in (31, 32, 33, 60):
        x = jnp.asarray(np.where(np.arange(60) < used, word_BL, PADDING), jnp.int32)
        cut, uncut = (features(name, 60, ops=o)(params, x) for o in (ops.CPU, ops.LAX))
        np.testing.assert_allclose(cut, uncut, 1e-5, 1e-5)


@pytest.mark.parametrize("name", [*TEXT, *CODE])
def test_the_vector_of_padding_is_zero_and_gets_no_gradient(name):
    params = started(name)
    assert np.all(params["body"]["embedding"]["table"][PADDING] == 0)
    grad = grads(name)(params, texts(9))["body"]["embedding"]["table"]
    assert np.all(grad[PADDING] == 0) and np.any(grad[1:] != 0)


@pytest.mark.parametrize("name", CODE)
def test_released_variants_see_padding_and_give_log_probabilities(name):
    """As released: features are log-softmax, and padding counts among the words."""
    params = started(name)
    short, long = (features(name, n)(params, texts(n)) for n in (9, 14))
    np.testing.assert_allclose(np.exp(short).sum(1), 1, atol=1e-5)
    assert np.abs(short - long)[-1].max() > 1e-3


@pytest.mark.parametrize("name", TEXT)
def test_empty_texts_have_finite_features_and_gradients(name):
    x = jnp.full((len(LENGTHS), 9), PADDING, jnp.int32)
    found = features(name)(started(name), x), grads(name)(started(name), x)
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(found))


# ----------------------------------------------------------------------- what they do


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


@pytest.mark.parametrize("name", TEXT)
def test_bfloat16_is_close_to_float32(name):
    given = started(name), texts(9)
    exact = features(name)(*given)
    rough = features(name, compute_dtype="bfloat16")(*given)
    assert 0 < np.abs(exact - rough).max() < 0.05 * np.abs(exact).max()


# ------------------------------------------------------------------------------ errors


def test_a_network_on_texts_refuses_numbers_and_the_other_way_round():
    options = {"num_classes": 4, "feat_dim": DIM}
    with refused(
        "network 'fasttext' reads texts, but the inputs are numbers. Networks"
    ):
        models.build("fasttext", input_shape=(9,), **options)
    with refused(
        "network 'mlp' reads numbers, but the inputs are texts. Networks on t"
    ):
        models.build("mlp", input_shape=(9,), vocab_size=WORDS, **options)


def test_tokens_of_another_shape_are_refused():
    with refused("take tokens [length], but an input has shape (9, 2)"):
        models.build(
            "textcnn", input_shape=(9, 2), num_classes=4, feat_dim=3, vocab_size=WORDS
        )


def test_filters_of_the_released_code_are_a_hundred_of_each_size():
    assert (text.FILTERS, text.SIZES, text.RATE) == (100, (3, 4, 5), 0.8)
