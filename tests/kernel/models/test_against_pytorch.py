"""Networks against PyTorch: equal weights give equal logits, also after an SGD step.

In evaluation and in training, where normalisation keeps deep features from vanishing.
In float64, so that equal formulas agree far below float32's rounding; networks on texts
fix their precision, and agree to that of float32.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.every import every
from support.fast_jit import jit
from support.networks import relative

from jaxproto import models

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it
torch = pytest.importorskip("torch")
torch_nets = pytest.importorskip("benchmarks.torch_nets")

CLASSES, DIM, WORDS, RATE = 3, 16, 12, 0.01
IMAGES = ("resnet34", "resnet50", "googlenet", "vit_b_16", "vit_b_32")
IMAGES += ("resnet101", "resnet152")
SENSORS = ("harcnn", "harcnn+layers=1+stride=3", "harcnn+layers=3+stride=2")
NUMBERS = ("amazon_mlp", "amazon_mlp+hidden=20-10")
TEXTS = ("lstm", "gru", "bilstm", "text_logistic")
TEXTS += ("transformer", "transformer+layers=1+heads=2")
RNG = np.random.default_rng(0)


def inputs(name):
    """Inputs here and in PyTorch, and its body."""
    if name in TEXTS:  # tokens of 1 to 9 words, and padding behind them
        here = np.arange(9) < np.array([9, 5, 1, 7])[:, None]
        x = np.where(here, RNG.integers(1, WORDS, (4, 9)), 0)
        return x, torch.tensor(x), torch_nets.BODIES[name]((WORDS, DIM))
    others = {**dict.fromkeys(SENSORS, (128, 9, 1)), **dict.fromkeys(NUMBERS, (50,))}
    shape = others.get(name, (32, 32, 3))
    x = RNG.normal(size=(4, *shape))
    there = torch.tensor(x)
    if len(shape) == 3:  # of sensors [B, channels, 1, time]
        there = there.permute(*((0, 2, 3, 1) if name in SENSORS else (0, 3, 1, 2)))
    return x, there, torch_nets.BODIES[name](shape)


def head(name):
    """Two layers for vision transformers, as in HtFLlib, else one."""
    if not name.startswith("vit"):
        return torch.nn.Linear(DIM, CLASSES)
    first, last = torch.nn.Linear(DIM, 768), torch.nn.Linear(768, CLASSES)
    return torch.nn.Sequential(first, torch.nn.Tanh(), last)


def without_dropout(net):
    for module in net.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "dropout", None), float):
            module.dropout = 0.0
        if hasattr(module, "drop"):
            module.drop = 0.0
    return net


@every([*SENSORS, *NUMBERS, *TEXTS, *IMAGES])
def test_networks_are_pytorchs(name):
    torch.manual_seed(0)
    x, there, body = inputs(name)
    pool = torch.nn.AdaptiveAvgPool1d(DIM)
    net = without_dropout(torch.nn.ModuleDict({"base": body, "head": head(name)}))
    options = {"input_shape": x.shape[1:], "num_classes": CLASSES, "feat_dim": DIM}
    options |= {"vocab_size": WORDS} if name in TEXTS else {}
    given = models.from_torch(name, net.state_dict(), **options)
    y, net = np.array([0, 1, 2, 1]), net.double()
    tolerance, after = (1e-6, 1e-5) if name in TEXTS else (1e-8, 1e-6)

    def theirs(train):
        net.train(train)
        return net["head"](pool(net["base"](there)))

    with jax.enable_x64(True):
        ours = models.build(name, **options)
        params, norm = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), given)
        apply = jit(
            lambda params, norm, train: ours.apply(params, norm, x, train),
            static_argnames="train",
        )

        def compare(train, expected, tolerance):
            got = apply(params, norm, train=train).logits
            assert relative(got, expected.detach().numpy()) < tolerance

        def loss(params):
            out = ours.apply(params, norm, x, True)
            return -jnp.mean(jax.nn.log_softmax(out.logits)[np.arange(4), y]), out.norm

        compare(False, theirs(False), tolerance)
        logits = theirs(True)
        compare(True, logits, tolerance)
        grad, norm = jit(jax.grad(loss, has_aux=True))(params)
        params = jax.tree.map(lambda a, g: a - RATE * g, params, grad)
        torch.nn.functional.cross_entropy(logits, torch.tensor(y)).backward()
        torch.optim.SGD(net.parameters(), RATE).step()
        compare(False, theirs(False), after)
        compare(True, theirs(True), after)
