"""Milliseconds of each form of each operation, with gradients, for clients in step.

    python -m benchmarks.operations
    python -m benchmarks.operations --cases=conv3x3_64,depthwise3x3_192 --clients=4
    python -m benchmarks.operations --clients=2 --batch=4 --steps=2       # on CPUs

Every client has its own kernel. `all:` maps over the clients with `vmap`, `one:` runs
them one after the other within the program. `models.ops.ops_for` selects the form of a
platform. On CPUs, XLA's own implementations are slow.
"""

import sys
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from benchmarks import measure
from jaxproto.models.ops import channel_sums, ops
from jaxproto.round import execution


class Case(NamedTuple):
    """An operation of a network, with its shapes."""

    kind: str
    image: tuple[int, int, int]  # H, W, C
    kernel: tuple[int, ...] = ()  # [kh, kw, C / groups, C']; () where there is none
    options: tuple[int, ...] = (1, 0)  # arguments after x and kernel


FORMS = {  # kind -> name -> function
    **ops.FORMS,
    "sums": {
        "lax": channel_sums.channel_sums,
        "short": channel_sums.channel_sums_short,
    },
}
CASES = {
    "conv5x5_1": Case("conv", (28, 28, 1), (5, 5, 1, 32)),  # 4-layer CNN
    "conv5x5_32": Case("conv", (12, 12, 32), (5, 5, 32, 64)),
    "conv7x7_3": Case("conv", (32, 32, 3), (7, 7, 3, 64), (2, 3)),  # ResNets
    "conv3x3_64": Case("conv", (8, 8, 64), (3, 3, 64, 64), (1, 1)),
    "conv3x3_128": Case("conv", (8, 8, 64), (3, 3, 64, 128), (2, 1)),
    "conv3x3_512": Case("conv", (2, 2, 512), (3, 3, 512, 512), (1, 1)),
    "conv1x1_32": Case("conv", (16, 16, 32), (1, 1, 32, 192)),  # MobileNetV2
    "conv1x1_320": Case("conv", (2, 2, 320), (1, 1, 320, 1280)),
    "depthwise3x3_192": Case("depthwise", (16, 16, 192), (3, 3, 1, 192), (1, 1)),
    "depthwise3x3_576": Case("depthwise", (4, 4, 576), (3, 3, 1, 576), (2, 1)),
    "depthwise5x5_240": Case("depthwise", (8, 8, 240), (5, 5, 1, 240), (1, 2)),
    "grouped3x3_128": Case("grouped", (8, 8, 128), (3, 3, 4, 128), (1, 1, 32)),
    "max_pool2": Case("max_pool", (24, 24, 32), (), (2, 2)),
    "max_pool3": Case("max_pool", (16, 16, 64), (), (3, 2, 1)),
    "sums": Case("sums", (16, 16, 64), (), ()),
}
MAPS = {"all": jax.vmap, "one": execution.one_by_one().each}

FLAGS = measure.flag_values(
    "repeats",
    cases=(list(CASES), "from " + ", ".join(CASES)),
    clients=20,
    batch=(32, "images per client"),
    steps=(20, "repetitions within a program"),
    maps=(["all", "one"], "forms of clients: all, one"),
)


def applied(case: Case, f: Callable) -> Callable:
    """Returns a form as a function of images [B, H, W, C] and a kernel."""
    if case.kernel:
        return lambda x, kernel: [f(x, kernel, *case.options)]
    return lambda x, kernel: [*f(x)] if case.kind == "sums" else [f(x, *case.options)]


def squares(case: Case, f: Callable) -> Callable:
    """Returns half the squared norm of a form's results, to take gradients of."""
    return lambda *args: sum(jnp.sum(a**2) / 2 for a in applied(case, f)(*args))


def contender(case: Case, f: Callable, mapped: Callable, s: dict) -> Callable[[], None]:
    """Returns a program of gradient steps on inputs and kernels of all clients."""
    grads = mapped(jax.grad(squares(case, f), (0, 1)))
    keys = jax.random.split(jax.random.key(0))
    x = jax.random.normal(keys[0], (s["clients"], s["batch"], *case.image))
    kernel = jax.random.normal(keys[1], (s["clients"], *case.kernel))

    def step(_, arrays):
        return jax.tree.map(lambda a, g: a - 1e-9 * g, arrays, grads(*arrays))

    def program(x, kernel):
        return lax.fori_loop(0, s["steps"], step, (x, kernel))

    compiled = jax.jit(program).lower(x, kernel).compile()
    return measure.waiting(compiled, x, kernel)


def one_case(name: str, s: dict) -> list[dict]:
    """Times every form of one operation, for every form of clients, in turn."""
    case = CASES[name]
    contenders = {
        f"{m}:{form}": contender(case, f, MAPS[m], s)
        for m in s["maps"]
        for form, f in FORMS[case.kind].items()
    }
    times = measure.alternate(contenders, s["repeats"])
    least = min(t.median for t in times.values())
    return [
        {
            "case": name,
            "form": form,
            "ms": 1e3 * t.median / s["steps"],
            "times_fastest": t.median / least,
            "time": t.record(),
        }
        for form, t in times.items()
    ]


def main(argv):
    """Measures every case."""
    s = measure.parse(FLAGS, argv, __doc__)
    measure.check_choices(s, "cases", CASES)
    measure.check_choices(s, "maps", MAPS)
    rows = []
    for name in s["cases"]:
        rows += one_case(name, s)
        print(f"{name}: done", flush=True)
    columns = {"case": "case", "form": "form", "ms": "ms", "times_fastest": "x fastest"}
    cells = [[r[k] for k in columns] for r in rows]
    title = f"Forward and gradients, {s['clients']} clients of {s['batch']} images"
    view = measure.table(title, columns.values(), cells)
    measure.finish("operations", s, rows, [view])


if __name__ == "__main__":
    main(sys.argv)
