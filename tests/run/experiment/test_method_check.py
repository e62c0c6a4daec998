"""Mistakes in methods and networks of users: each is one line with its place."""

import dataclasses
import re
import time

import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from support.every import check_every
from support.runs import digits

import jaxproto
from jaxproto import METHODS, UserError
from jaxproto.config.optimizers import SCHEDULES
from jaxproto.core.types import LossAux, Spec
from jaxproto.experiment import build, slot_trace
from jaxproto.methods.fedavg import fedavg
from jaxproto.methods.fedproto import fedproto
from jaxproto.metrics import METRICS, Metric
from jaxproto.models import NETS, from_nnx
from jaxproto.round.participation import SAMPLERS, all_report

HERE = re.escape(__file__)
SPEC = Spec(num_classes=10, feat_dim=64)


def head_average(spec, **changes):
    """A correct method that predicts without its server, with functions replaced."""
    own = {"predict": METHODS["local"](spec).predict}
    return dataclasses.replace(METHODS["lg_fedavg"](spec), **own | changes)


def slots(**changes):
    return lambda spec: head_average(spec, **changes)


def branch(net, params, norm, batch, down, client):
    if batch.y.sum() > 0:
        return 0.0, LossAux(norm)


def stopped(net, params, norm, batch, down, client):
    out = net.apply(params["net"], norm["net"], batch.x, True, batch.key)
    return jnp.sum(jax.lax.stop_gradient(out.logits)), LossAux(norm)


def other(out):
    return lambda *args: out


def loop(net, server, up, key):
    for _ in range(up.size.sum()):
        return server


def sends(extra):
    """Changed slots: the upload has one more entry."""
    method = head_average(SPEC)

    def upload(*args):
        up, memory = method.upload(*args)
        return {"up": up, "n": extra}, memory

    def update(net, server, up, key):
        return method.update(net, server, up["up"], key)

    return {"upload": upload, "update": update}


def from_fedproto(**changes):
    return lambda spec: dataclasses.replace(fedproto(spec), **changes)


def counts_rounds(net, key):
    return {"head": net.init(key)[0]["head"], "rounds": 0}


def number_as_memory(net, key):
    params, norm = net.init(key)
    return {"net": params}, {"net": norm}, 0


FEATURES = other({"head": jnp.ones((3, 64))})
MISTAKES = {  # changed slots, or a factory -> part of the message
    "predict: features": ({"predict": FEATURES}, r"predict returns float32\[3,64\]"),
    "predict: no scores": (
        {"predict": other({"head": jnp.zeros(3)})},
        r"predict returns float32\[3\] for the rule 'head'; it must return a score",
    ),
    "predict: no dict": ({"predict": other(1.0)}, "predict returns float; .*rule"),
    "update: axis left": (
        {"update": lambda net, server, up, key: up[0]},
        r"update returns float32\[2,10\] at \['bias'\]; init_server has float32\[10\]",
    ),
    "update: list for tuple": (
        {
            "init_server": lambda net, key: (net.init(key)[0]["head"],),
            "receive": lambda own, down: own,
            "update": lambda net, server, up, key: list(server),
        },
        r"update returns the tree .*\[.*; init_server has",
    ),
    "update: attribute": (
        {"update": lambda net, server, up, key: up[1].items()},
        rf"AttributeError: jax.Array has no attribute items, line \d+ of {HERE}",
    ),
    "loss: no LossAux": (
        {"loss": other(0.0)},
        r"loss returns float; it must return \(scalar, LossAux\(norm, sums\)\)",
    ),
    "loss: vector": (
        {"loss": lambda net, params, norm, *rest: (jnp.ones(3), LossAux(norm))},
        r"loss returns float32\[3\]; it must return a float scalar",
    ),
    "loss: constant": (
        {"loss": lambda net, params, norm, *rest: (jnp.float32(1), LossAux(norm))},
        rf"loss has no gradient for any parameter: it is constant.*{HERE}",
    ),
    "loss: stopped": (
        {"loss": stopped},
        rf"loss has no gradient for any parameter.*stop_gradient.*{HERE}",
    ),
    "loss: a branch": (
        {"loss": branch},
        rf"loss fails: it needs the value of a traced array.*, line \d+ of {HERE}",
    ),
    "receive: a part": (
        {"receive": lambda own, down: {"net": {"head": down}}},
        r"receive returns nothing at \['net'\]\['body'\].*init_client has float32",
    ),
    "init_client: a pair": (
        {"init_client": lambda net, key: net.init(key)},
        r"init_client returns a tuple of 2; it must return \(params, norm, memory\)",
    ),
    "features: of an example": (
        {"features": lambda net, client, x: x[0]},
        r"features returns float32\[.*; it must return features \[3,D\]",
    ),
    "factory: a dict": (lambda spec: {}, "factory returns dict; .*jaxproto.Method"),
    "factory: no default": (
        lambda spec, *, rate: head_average(spec),
        "argument 'rate' of its factory has no default",
    ),
    "factory: fails": (
        lambda spec: head_average(spec.colour),
        rf"its factory fails: AttributeError: .*'colour', line \d+ of {HERE}",
    ),
    "factory: no such field": (
        {"predct": FEATURES},
        rf"unknown field of a Method 'predct'. Did you mean 'predict'\?.*{HERE}, line",
    ),
    "title: a number": ({"title": 3}, "its title is 3; it must be a text"),
    "homogeneous: text": ({"homogeneous": "no"}, "'no'; it must be True or False"),
    "nominal: a text": ({"nominal": "10"}, "nominal is '10'; it must be a function"),
    "loss: a text": ({"loss": "ce"}, rf"loss is 'ce'; it must be a function.*{HERE}"),
    "update: None": ({"update": None}, "update is None; it must be a function"),
    "update: a loop": (
        {"update": loop},
        rf"update fails: it needs .* as `range` does; .*fori_loop.*line \d+ of {HERE}",
    ),
    "update: a mask": (
        {"update": lambda net, server, up, key: up.size[up.size > 0]},
        rf"update fails: it needs .* as a\[mask\] does; .*jnp.where.*of {HERE}",
    ),
    "update: NumPy": (
        {"update": lambda net, server, up, key: np.asarray(up.size)},
        rf"update fails: it needs .* as NumPy does; use jax.numpy, line \d+ of {HERE}",
    ),
    "upload: an int": (
        sends(3),
        r"upload returns the Python int 3 in its message at \['n'\]; make it "
        r"jnp.asarray\(3\)",
    ),
    "upload: a list": (sends([0.5]), r"Python float 0.5 .* at \['n'\]\[0\]; make"),
    "upload: a text": (sends("ab"), r"Python str 'ab' .*; only arrays are passed on"),
    "upload: NumPy's": (
        sends(np.float32(2)),
        r"the NumPy float32 2.0 in its message at .* jnp.asarray\(2.0\)",
    ),
    "init_server: an int": (
        {"init_server": counts_rounds},
        r"init_server returns the Python int 0 at \['rounds'\]",
    ),
    "init_client: an int": (
        {"init_client": number_as_memory},
        r"init_client returns the Python int 0 in its memory; make",
    ),
    "broadcast: a number": (
        {"broadcast": other({"t": 0.5})},
        r"broadcast returns the Python float 0.5 at \['t'\]",
    ),
    "upload: None": ({"upload": other((None, ()))}, "upload returns None as message"),
    "upload: no return": ({"upload": other(None)}, "upload returns None; it must"),
    "init_server: None": (
        from_fedproto(init_server=other(None)),
        rf"init_server returns None; return \(\) if there is nothing \({HERE}",
    ),
    "broadcast: the state": (
        from_fedproto(broadcast=lambda server: server),
        rf"loss fails: AttributeError.*; its argument came from broadcast \({HERE}, "
        r"line \d+\), which returns FedProtoState: .protos.mean .* float32\[10\]\.",
    ),
}


RNG = np.random.default_rng(0)
KEPT = []


@pytest.fixture(autouse=True)
def nothing_kept():
    KEPT.clear()
    yield
    KEPT.clear()


def noisy(slot, draw):
    """Changed slots: the arrays that a function returns are multiplied by a draw."""
    f = getattr(head_average(SPEC), slot)

    def scaled(a):
        return a * jnp.asarray(draw(), a.dtype)

    return {slot: lambda *args: jax.tree.map(scaled, f(*args))}


def noise_in_factory(spec):
    return head_average(spec, **noisy("loss", np.random.rand().__float__))


def kept_by(slot, used_in):
    """Changed slots: one function uses a value that another one keeps in a list."""
    keep, use = (getattr(head_average(SPEC), name) for name in (slot, used_in))

    def keeper(*args):
        KEPT.append(args[1])
        return keep(*args)

    def user(*args):
        last = jax.tree.leaves(KEPT[-1:])
        return jax.tree.map(lambda a: a + sum(b.sum() for b in last), use(*args))

    return {slot: keeper, used_in: user}


def computed_loss(net, params, norm, *rest):
    value, aux = head_average(SPEC).loss(net, params, norm, *rest)
    KEPT.append(value * 2)
    return value, aux


FROZEN = rf"fails: it changes from one trace to the next, .*jax.random .*\({HERE}, line"
DRAWS = {  # function -> changed slots
    "loss": noisy("loss", np.random.rand),
    "update": noisy("update", lambda: time.perf_counter_ns() % 1000003),
    "upload": noisy("upload", lambda: RNG.integers(1 << 30)),
    "init_server": noisy("init_server", np.random.rand),
    "predict": noisy("predict", RNG.random),
    "loss of a factory": noise_in_factory,
}
LEAKS = (  # changed slots, function that uses the value, that keeps it, its line
    (kept_by("loss", "update"), "update", "loss", ""),
    (kept_by("upload", "loss"), "loss", "upload", ""),  # of the round before
    (
        kept_by("loss", "predict") | {"loss": computed_loss},
        "predict",
        "loss",
        rf" \(line \d+ of {HERE}\)",
    ),
)


class Width(nnx.Module):
    def __init__(self, input_shape, rngs):
        self.layer = nnx.Linear(7, 3, rngs=rngs)  # whatever the input has

    def __call__(self, x):
        return self.layer(x.reshape(len(x), -1))


class WholeNumbers(nnx.Module):
    def __init__(self, input_shape, rngs):
        self.layer = nnx.Linear(64, 64, rngs=rngs)

    def __call__(self, x):
        return self.layer(x.reshape(len(x), -1)).astype(int)


def whole_logits(input_shape, num_classes, feat_dim, ops=None):
    net = NETS["mlp"](input_shape, num_classes, feat_dim, ops)

    def apply(*args):
        out = net.apply(*args)
        return out._replace(logits=out.logits.astype(int))

    return net._replace(apply=apply)


def no_outputs(input_shape, num_classes, feat_dim, ops=None):
    net = NETS["mlp"](input_shape, num_classes, feat_dim, ops)
    return net._replace(apply=lambda params, norm, x, train, key=None: x)


NETWORKS = {
    "a network": (
        NETS["mlp"]((8, 8, 1), 10, 64),
        "is Net.*; it must be a fun.*from_nnx",
    ),
    "a linen module": (flax.linen.Dense(3), r"its factory fails.*from_nnx"),
    "a wrong width": (from_nnx(Width), "apply fails for inputs .*line .*"),
    "whole features": (from_nnx(WholeNumbers), r"features int32\[.*must be floats"),
    "whole logits": (whole_logits, r"apply returns int32\[2,10\] as logits; .*floats"),
    "no NetOutput": (no_outputs, r"apply returns float32\[\d+,8,8,1\], not NetOutput"),
}


def test_a_mistake_in_a_method_is_named_with_function_and_shapes(monkeypatch):
    def check(name, factory, message):
        factory = slots(**factory) if isinstance(factory, dict) else factory
        monkeypatch.setitem(METHODS, "mine", factory)
        with pytest.raises(UserError, match=message) as e:
            jaxproto.check(digits("mine"))
        assert "\n" not in f"{e.value}"

    check_every([(name, *row) for name, row in MISTAKES.items()], check)


def test_a_draw_of_numpy_or_of_the_clock_is_refused(monkeypatch):
    def check(name, factory):
        factory = slots(**factory) if isinstance(factory, dict) else factory
        monkeypatch.setitem(METHODS, "mine", factory)
        with pytest.raises(UserError, match=f"{name.split()[0]} {FROZEN}"):
            jaxproto.check(digits("mine"))

    check_every(DRAWS.items(), check)


def test_a_traced_value_that_a_function_keeps_for_another_is_refused(monkeypatch):
    def check(changes, user, keeper, line):
        KEPT.clear()
        monkeypatch.setitem(METHODS, "mine", slots(**changes))
        message = (
            rf"{user} fails: it uses a traced value that {keeper} keeps for later"
            rf"{line}; return it .*\({HERE}, line"
        )
        with pytest.raises(UserError, match=message):
            jaxproto.check(digits("mine"))

    check_every(LEAKS, check)


def test_a_draw_is_refused_in_a_network_a_metric_a_sampler_and_a_schedule(monkeypatch):
    def random_features(x):
        return x.reshape(len(x), -1) * np.random.rand()

    class Random(nnx.Module):
        def __init__(self, input_shape, rngs):
            self.layer = nnx.Linear(3, 3, rngs=rngs)

        __call__ = staticmethod(random_features)

    def sampler(key, num_clients, r):
        return all_report(jnp.arange(num_clients) == np.random.randint(num_clients))

    def score(scores, y, mask):
        return mask.sum() * np.random.rand(), mask.sum()

    def schedule(r):
        return jnp.float32(np.random.rand())

    cases = (
        (
            NETS,
            from_nnx(Random),
            {"model__group": "mine"},
            "apply fails for inputs .*: ",
        ),
        (SAMPLERS, lambda: sampler, {"participation__law": "mine"}, "sampler 'mine' "),
        (METRICS, Metric(score), {"eval__metrics": "mine"}, "metric 'mine' "),
        (
            SCHEDULES,
            lambda decay, rounds: schedule,
            {"optimizer__schedule": "mine"},
            "schedule 'mine' ",
        ),
    )

    def check(registry, entry, fields, message):
        with monkeypatch.context() as patch:
            patch.setitem(registry, "mine", entry)
            with pytest.raises(UserError, match=f"{message}.*changes from one trace"):
                jaxproto.check(digits("local", **fields))

    check_every(cases, check)


def test_an_if_in_a_network_a_metric_a_sampler_and_a_schedule_is_explained(monkeypatch):
    class Branch(nnx.Module):
        def __init__(self, input_shape, rngs):
            self.layer = nnx.Linear(3, 3, rngs=rngs)

        def __call__(self, x):
            return x if x.sum() > 0 else -x

    def sampler(key, num_clients, r):
        return all_report(jnp.ones(num_clients, bool) if r else None)

    def score(scores, y, mask):
        return (mask.sum() if scores.sum() > 0 else 0), mask.sum()

    cases = (
        (NETS, from_nnx(Branch), {"model__group": "mine"}),
        (SAMPLERS, lambda: sampler, {"participation__law": "mine"}),
        (METRICS, Metric(score), {"eval__metrics": "mine"}),
        (
            SCHEDULES,
            lambda decay, rounds: lambda r: 1.0 if r < 2 else 0.1,
            {"optimizer__schedule": "mine"},
        ),
    )
    message = rf"it needs the value of .* in an `if`; use jnp.where.*line \d+ of {HERE}"

    def check(registry, entry, fields):
        with monkeypatch.context() as patch:
            patch.setitem(registry, "mine", entry)
            with pytest.raises(UserError, match=message):
                jaxproto.check(digits("local", **fields))

    check_every(cases, check)


def test_a_sampler_and_a_schedule_that_return_something_else_are_named(monkeypatch):
    both = (jnp.ones(3, bool), jnp.ones(3, bool))
    monkeypatch.setitem(SAMPLERS, "mine", lambda: other(both))
    message = r"sampler 'mine' returns \[0\] bool\[3\], \[1\] bool\[3\]; it must return"
    with pytest.raises(UserError, match=message):
        jaxproto.check(digits("local", participation__law="mine"))
    monkeypatch.setitem(SCHEDULES, "mine", lambda decay, rounds: other(jnp.ones(3)))
    with pytest.raises(
        UserError, match=r"returns float32\[3\]; it must return a number"
    ):
        jaxproto.check(digits("local", optimizer__schedule="mine"))


def test_a_mistake_in_a_network_is_named(monkeypatch):
    def check(name, factory, message):
        with pytest.raises(UserError, match=f"network 'mine'.*{message}"):
            monkeypatch.setitem(NETS, "mine", factory)
            jaxproto.check(digits("fedavg", model__group="mine"))

    check_every([(name, *row) for name, row in NETWORKS.items()], check)


def test_a_run_checks_before_it_writes_and_what_is_right_passes(monkeypatch, tmp_path):
    monkeypatch.setitem(METHODS, "mine", slots(update=other(None)))
    with pytest.raises(UserError, match="update returns nothing"):
        jaxproto.run(digits("mine"), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    monkeypatch.setitem(METHODS, "mine", slots())
    monkeypatch.setitem(METHODS, "sums", lambda spec: dataclasses.replace(fedavg(spec)))
    for name in ("mine", "sums"):
        jaxproto.check(digits(name))


def test_methods_of_the_package_pass_as_if_a_user_had_written_them(monkeypatch):
    for module in (build, slot_trace):
        monkeypatch.setattr(module, "is_external", lambda f: True)
    for name in ("fedproto", "fedavg", "fedtgp"):
        jaxproto.check(digits(name))
