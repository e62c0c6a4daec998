"""PyTorch weights: golden networks, round trips, files and error messages."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from support.every import check_every, every
from support.fast_jit import jit_of_users
from support.networks import GOLDEN, relative, shapes, small
from support.refusal import refused

from jaxproto import models
from jaxproto.errors import UserError
from jaxproto.models.ops import ops

IMAGE = (32, 32, 3)


def golden_weights(case):
    names = json.loads(bytes(GOLDEN[f"{case}/state_dict_json"]))
    return {name: stream(i, name, s) for i, (name, s) in enumerate(names)}


def stream(i, name, shape):
    """Entry i of the random stream that the fixture's networks were filled with."""
    t = np.random.RandomState(i).uniform(-1, 1, int(np.prod(shape)))
    if name.endswith("running_var"):
        t = 1 + 0.2 * t
    elif name.endswith("running_mean"):
        t = 0.1 * t
    elif len(shape) == 1:
        t = 1 + 0.1 * t if name.endswith("weight") else 0.05 * t
    elif shape:
        t = t * np.sqrt(6 / (t.size / shape[0]))
    return t.reshape(shape).astype(np.float32)


def tiny(name):
    options = small(name, (16, 16, 1))
    leaves, structure = jax.tree.flatten(shapes(models.build(name, **options)))
    rng = np.random.default_rng(0)
    leaves = [rng.random(leaf.shape, np.float32) for leaf in leaves]
    return (*jax.tree.unflatten(structure, leaves), options)


GOLDEN_CASES = [
    ("resnet8", "resnet8_k10_d500", ops.CPU),
    ("resnet8", "resnet8_k10_d500", ops.LAX),
    ("resnet18", "resnet18_k10_d512", ops.CPU),
    ("mobilenet_v2", "mobilenet_v2_k10_d500", ops.CPU),
]


@pytest.mark.long
@every(GOLDEN_CASES)
def test_a_golden_network_is_matched(name, case, form):
    """ProtoNorm's released PyTorch networks (ResNet-18: torchvision 0.29) before and
    after one SGD step (0.01, training mode, no dropout) on CE + 10 * MSE to prototypes.
    The fixture keeps the first rows of some outputs."""
    dim = int(case.rpartition("d")[2])
    options = {"input_shape": IMAGE, "num_classes": 10, "feat_dim": dim}
    params, norm = models.from_torch(name, golden_weights(case), **options)
    net = models.build(name, **options, ops=form)
    x = np.random.RandomState(999).standard_normal((32, *IMAGE))
    x, y, rows = jnp.asarray(x, jnp.float32), jnp.arange(32) % 10, jnp.arange(32)
    target = np.random.RandomState(998).standard_normal((10, dim))
    target = jnp.asarray(target, jnp.float32)

    def loss(params):
        out = net.apply(params, norm, x, True)
        cross = -jnp.mean(jax.nn.log_softmax(out.logits)[rows, y])
        return cross + 10 * jnp.mean((out.feat - target[y]) ** 2), out.norm

    evaluate = jit_of_users(lambda params, norm: net.apply(params, norm, x, False))

    def check(params, norm, feat, logits, tolerance):
        out = evaluate(params, norm)
        for got, key in ((out.feat, feat), (out.logits, logits)):
            expected = GOLDEN[f"{case}/{key}"]
            assert relative(got[: len(expected)], expected) < tolerance

    check(params, norm, "eval_features", "eval_logits", 1e-4)
    (value, norm), grad = jit_of_users(jax.value_and_grad(loss, has_aux=True))(params)
    assert float(value) == pytest.approx(GOLDEN[f"{case}/train_losses"][0], rel=1e-4)
    params = jax.tree.map(lambda p, g: p - 0.01 * g, params, grad)
    check(params, norm, "features_after", "logits_after", 1e-3)


@pytest.mark.long
@every([*sorted(set(models.NETS) - {"cnn4_d"}), "cnn4+head=6-4"])
def test_there_and_back_again_changes_nothing(name):
    params, norm, options = tiny(name)
    again = models.from_torch(name, models.to_torch(params, norm), **options)
    assert jax.tree.structure(again) == jax.tree.structure((params, norm))
    jax.tree.map(np.testing.assert_array_equal, again, (params, norm))


TORCHVISION = {  # torchvision 0.29: some of each kind of name, with the shapes there
    "shufflenet_v2_x1_0": """
        base.conv1.0.weight 24,1,3,3  base.stage2.0.branch1.3.bias 58
        base.stage4.3.branch2.6.weight 232  base.conv5.1.running_var 1024
    """,
    "efficientnet_b0": """
        base.features.0.0.weight 32,1,3,3  base.features.1.0.block.1.fc1.weight 8,32,1,1
        base.features.3.0.block.1.1.running_mean 144  base.features.8.0.weight
        1280,320,1,1  base.features.6.3.block.2.fc2.weight 1152,48,1,1  head.bias 3
    """,
    "resnet10": "base.layer_3.downsample.0.weight 512,256,1,1",
    "cnn4": "base.conv2.0.bias 64  base.fc1.0.weight 512,64",
    "spiral_mlp": "base.fc1.weight 16,2  head.weight 3,2",
    "cnn4+head=6-4": "head.0.weight 6,5  head.4.bias 3",
    "fasttext": "base.embedding.weight 9,5  base.fc1.weight 5,5",
    "textcnn": "base.conv1.0.weight 100,5,3  base.fc1.weight 5,300",
}


@pytest.mark.long
@every(TORCHVISION)
def test_names_without_a_golden_network_are_pytorchs(name):
    words = TORCHVISION[name].split()
    given = models.to_torch(*tiny(name)[:2])
    for key, shape in zip(words[::2], words[1::2], strict=True):
        assert given[key].shape == tuple(map(int, shape.split(","))), key


@functools.cache
def trained():
    params, norm, sizes = tiny("resnet4")
    return models.to_torch(params, norm), (params, norm), sizes


def read(weights, **options):
    return models.from_torch("resnet4", weights, **trained()[2], **options)


def bare(weights):
    """As torchvision names them: no `base.`, a classifier of its own name."""
    weights = {k.removeprefix("base."): v for k, v in weights.items()}
    return {k.replace("head.", "classifier.1."): v for k, v in weights.items()}


def test_every_form_of_the_same_weights_gives_the_same_network(tmp_path):
    weights, trees, _ = trained()
    np.savez(tmp_path / "w.npz", **weights)
    whole = {k: np.ascontiguousarray(v) for k, v in weights.items()}
    safetensors.numpy.save_file(whole, tmp_path / "w.safetensors")
    forms = {
        "torchvision's names": bare(weights),
        "a count": weights | {"base.bn1.num_batches_tracked": np.int64(7)},
        "float64": {k: v.astype(np.float64) for k, v in weights.items()},
        "npz": tmp_path / "w.npz",
        "safetensors": str(tmp_path / "w.safetensors"),
    }

    def check(form):
        got = read(forms[form])
        jax.tree.map(np.testing.assert_array_equal, got, trees)
        assert {leaf.dtype.name for leaf in jax.tree.leaves(got)} == {"float32"}

    check_every(forms, check)


def test_a_fresh_head_leaves_the_classifier_of_the_weights_out():
    (weights, (params, norm), sizes), key = trained(), jax.random.key(4)
    fresh = models.build("resnet4", **sizes).init(key)[0]["head"]
    body = {k: v for k, v in weights.items() if k.startswith("base.")}
    for other in ({}, {"fc.weight": 1}, {"heads.head.weight": 1}):
        got = read(body | other, head=models.fresh_head(key))
        expected = ({"body": params["body"], "head": fresh}, norm)
        jax.tree.map(np.testing.assert_array_equal, got, expected)


def test_every_misfit_is_listed_with_its_shapes():
    weights = trained()[0]
    other = bare(weights) | {"classifier.1.weight": np.zeros((1000, 64))}
    message = r"weight: given \(1000, 64\), wanted \(3, 5\)\n.*head=fresh_head\(key"
    with pytest.raises(UserError, match=f"head.{message}"):
        read(other)
    weights = weights | {"base.layer_9.bn1.bias": np.zeros(3)}
    del weights["base.bn1.weight"]
    weights["base.conv1.weight"] = np.zeros((64, 3, 7, 7))
    with pytest.raises(UserError) as e:
        read(weights)
    assert str(e.value).splitlines() == [
        "the weights do not fit network 'resnet4':",
        "  missing bn1.weight: (64,)",
        "  unknown layer_9.bn1.bias: (3,)",
        "  wrong shape of conv1.weight: given (64, 3, 7, 7), wanted (64, 1, 7, 7)",
    ]


def test_unusable_weights_are_named(tmp_path):
    for name in ("a.npz", "empty.npz", "a.safetensors"):
        (tmp_path / name).write_bytes(b"nothing at all" * name.startswith("a"))
        with refused(f"{name} cannot be read"):
            read(tmp_path / name)
    twice = "'conv1.weight' and 'base.conv1.weight' of the weights mean the same"
    for weights, message in (
        (tmp_path / "w.pth", "w.pth is neither .npz nor .safetensors"),
        (tmp_path / "w.npz", "there is no weights file"),
        ({"conv1.weight": 1, "base.conv1.weight": 2}, twice),
        ({"state_dict": {}}, "entry 'state_dict' of the weights is no array: dict"),
    ):
        with refused(message):
            read(weights)
