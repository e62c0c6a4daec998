"""Digests of the user's code: what changes them, and what does not."""

import os
import subprocess
import sys
import threading
from functools import partial

import jax
import numpy as np
import pytest
from support.every import check_every

from jaxproto.config.code_digest import digest
from jaxproto.methods import METHODS
from jaxproto.models import NETS, from_linen

CELL = """
import dataclasses, functools
import jax, jax.numpy as jnp, numpy as np, optax
from flax import linen, nnx
from jaxproto.prototypes import losses
from jaxproto.methods import METHODS
table = {"a": np.arange(3), "b": {"x", "y", "z"}}
def helper(x): return x + 1
class Rule:
    share = 0.5
    def __call__(self, x): return helper(x) * self.share
@dataclasses.dataclass
class Options:
    lam: float = 1.0
    names: list = dataclasses.field(default_factory=list)
class Net(linen.Module):
    width: int = 3
    @linen.compact
    def __call__(self, x): return linen.Dense(self.width)(x)
@jax.custom_vjp
def straight(x): return x
straight.defvjp(lambda x: (x, None), lambda saved, g: (2 * g,))
def make(lam):
    def inner(x, key=jax.random.key(0)): return lam * x
    return inner
rule, options, net, scaled = Rule(), Options(), Net(), make(2.0)
optimizer, fixed = optax.adam(0.1), functools.partial(helper, x=3)
def mine(spec, *, share: float = 0.5):
    "A method."
    base = METHODS["fedavg"](spec)
    def update(x):
        if x in {"p", "q", "r"}:
            return table
        first = rule(x), options, net, scaled(x), straight(x), optimizer, fixed
        return first, [jnp.mean(y) for y in x], Net(width=2), losses.mse_mean
    return base, update
"""
CHANGES = [  # text of the cell -> another one; all change the method
    ("return x + 1", "return x + 2"),
    ("share = 0.5\n", "share = 0.6\n"),
    ("self.share", "self.share * 1.0"),
    ("lam: float = 1.0", "lam: float = 2.0"),
    ("width: int = 3", "width: int = 4"),
    ("linen.Dense(self.width)", "linen.Dense(self.width + 1)"),
    ("(2 * g,)", "(3 * g,)"),
    ("make(2.0)", "make(2.5)"),
    ("jax.random.key(0)", "jax.random.key(1)"),
    ("optax.adam(0.1)", "optax.adam(0.2)"),
    ("x=3", "x=4"),
    ("share: float = 0.5", "share: float = 0.4"),
    ('"r"}', '"s"}'),
    ("jnp.mean(y)", "jnp.sum(y)"),
    ("np.arange(3)", "np.arange(1, 4)"),
    ('"z"}}', '"w"}}'),
    ("Net(width=2)", "Net(width=1)"),
    ('METHODS["fedavg"]', 'METHODS["fedprox"]'),
    ("losses.mse_mean", "losses.sq_l2_mean"),
]
SAME = [  # changes without effect
    ("def helper", "# a comment\n\n\ndef helper"),
    ('"A method."', '"A better method."'),
    ("from flax import linen, nnx", "from flax import linen\nother = 3\nunused = [7]"),
]


def cell(text=CELL, name="mine"):
    """Returns a function of a notebook's cell."""
    scope = {"__name__": "__main__"}
    exec(compile(text, "<cell>", "exec"), scope)
    return scope[name]


def of(f):
    found, is_users = digest(f, [METHODS])
    assert is_users
    return found


def test_every_value_that_a_function_refers_to_changes_its_digest_and_no_comment():
    first = of(cell())
    assert of(cell()) == first

    def check(old, new, same):
        assert old in CELL
        assert (of(cell(CELL.replace(old, new))) == first) == same

    rows = [(*row, False) for row in CHANGES] + [(*row, True) for row in SAME]
    check_every(rows, check)


@pytest.mark.long
def test_processes_agree_whatever_their_order_of_sets():
    code = f"{CELL}\nfrom jaxproto.config.code_digest import digest\n"
    code += "print(digest(mine, [METHODS])[0])"
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


FILES = {
    "mine.py": "import os, helper\nfrom parts import part\n"
    "def mine(x):\n    import late\n    return helper.f(x) + part(x) + late.f(x)\n"
    "def get_config():\n    return 4\n",
    "helper.py": "import deeper\nFACTOR = 2\ndef f(x): return FACTOR * deeper.f(x)\n",
    "deeper.py": "def f(x): return x\n",
    "parts.py": "def part(x): return 3\ndef unused(x): return 1\n",
    "late.py": "def f(x): return 1\n",
}
IN_FILES = [
    ("helper.py", "FACTOR = 2", "FACTOR = 3", False),
    ("deeper.py", "return x", "return -x", False),
    ("parts.py", "return 3", "return 4", False),
    ("late.py", "return 1", "return 2", False),
    ("parts.py", "return 1", "return 2", True),
    ("mine.py", "return 4", "return 5", True),
    ("helper.py", "import deeper", "import deeper  # below", True),
]


def test_an_edited_helper_file_changes_the_digest_and_an_unused_function_does_not(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def in_folder(name, files):
        folder = tmp_path / name
        folder.mkdir()
        for file, text in files.items():
            (folder / file).write_text(text)
        with monkeypatch.context() as patch:
            patch.syspath_prepend(folder)
            for file in files:
                patch.delitem(sys.modules, file.removesuffix(".py"), raising=False)
            found = of(__import__("mine").mine)
            for file in files:
                sys.modules.pop(file.removesuffix(".py"), None)
        return found

    first = in_folder("first", FILES)
    for i, (file, old, new, same) in enumerate(IN_FILES):
        text = FILES[file].replace(old, new)
        assert text != FILES[file]
        assert (in_folder(str(i), FILES | {file: text}) == first) == same, (file, new)


def test_a_closure_with_another_value_and_a_partial_count():
    def close(value):
        return lambda x: x + value

    values = (1, 1.0, np.float32(1), np.ones(2), jax.numpy.ones(2), [1], None)
    made = [close(v) for v in values] + [partial(close(1), x) for x in (1, 2)]
    assert len({of(f) for f in made}) == len(made)
    assert of(close(np.ones(2))) == of(close(np.ones(2)))


def test_what_refers_to_itself_or_cannot_be_pickled_ends():
    def made():
        loop = [threading.Lock(), len]
        loop.append(loop)
        return lambda x: loop

    assert of(made()) == of(made())


@pytest.mark.parametrize("name", ("mlp", "resnet8"))
def test_only_code_from_outside_is_the_users(name):
    assert not digest(NETS[name])[1] and not digest(METHODS["fedproto"])[1]
    assert not digest(partial(METHODS["fedproto"], share=0.5))[1]
    assert digest(from_linen(cell(name="net")))[1]
