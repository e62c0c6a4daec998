"""Clipping, noise, refusals and accounting of `jaxproto.privacy`."""

import importlib.util
import itertools
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from support.every import check_every
from support.refusal import refused

from jaxproto import config
from jaxproto.config import privacy as private
from jaxproto.experiment import build
from jaxproto.experiment import traced as floats
from jaxproto.losses import cross_entropy
from jaxproto.methods import METHODS
from jaxproto.methods.fedavg import FedAvgUpload
from jaxproto.privacy import CLIENT, EXAMPLE, Privacy, accounting, mechanism, release
from jaxproto.reporting import compare
from jaxproto.storage import records
from jaxproto.summary import pictures
from jaxproto.training import compiler, privacy_ledger, programs, runner
from jaxproto.types import Batch, Data, Examples, LossAux, Net, NetOutput, Protos, Shard

C = 1.5  # clipping norm
CLASSES = 3
VALUES = ((9.0, 0.0), (-9.0, 0.0), (0.1, 0.2), (0.0, -4.0), (0.0, 0.0))
needs_accounting = pytest.mark.skipif(
    importlib.util.find_spec("dp_accounting") is None, reason="extra `privacy`"
)


def features():
    """A network whose features are its inputs."""

    def apply(params, norm, x, train, key=None):
        return NetOutput(x, x @ params, norm)

    return Net(lambda key: ((), ()), apply, lambda params, feat: feat)


@partial(jax.jit, static_argnums=1)
def summed(data, made):
    body = SimpleNamespace(params={"net": jnp.eye(2)}, norm={"net": ()})
    return release.class_rows(features(), body, data, made, C, CLASSES)


def rows(x, y, made=release.MEANS):
    size = len(x)
    shard = Shard(jnp.arange(size), jnp.int32(size))
    data = Data(Examples(jnp.asarray(x), jnp.asarray(y)), shard)
    return np.asarray(summed(data, made))


def moved(every):
    """Distances between all pairs."""
    return [np.linalg.norm(a - b) for a, b in itertools.combinations(every, 2)]


@pytest.mark.parametrize("counts", [True, False])
def test_another_example_moves_the_class_sums_by_two_norms_at_most(counts):
    made = release.MEANS._replace(weighed=counts)
    rest = [((1.0, 2.0), 0), ((-3.0, 1.0), 1)]
    every = []
    for unit in itertools.product(VALUES, range(CLASSES)):
        x, y = zip(unit, *rest, strict=True)
        every.append(rows(np.float32(x), np.int32(y), made))
    assert max(moved(every)) <= 2 * C * (1 + 1e-5)
    assert max(moved(every)) > 1.4 * C  # the bound is no looser than it must be


def test_another_client_moves_the_sum_by_two_norms_at_most():
    held, every = jax.jit(lambda up: release.clip_client_rows(up, release.MEANS, C)), []
    heres = list(itertools.product((0, 1), repeat=CLASSES))
    for scale, here in itertools.product((-50.0, -1.0, 0.1, 50.0), heres):
        mean = scale * np.ones((CLASSES, 2), np.float32)
        up = Protos(jnp.asarray(mean), jnp.asarray(here, jnp.float32))
        every.append(np.asarray(held(up)))
    assert max(map(np.linalg.norm, every)) <= C * (1 + 1e-5)
    assert 1.9 * C < max(moved(every)) <= 2 * C * (1 + 1e-5)


@partial(jax.jit, static_argnums=3)
def gradient(x, y, mask, privacy):
    net = features()

    def loss(params, norm, batch, down, client):
        out = net.apply(params, norm, batch.x, True)
        return cross_entropy(out.logits, batch.y, batch.mask), LossAux(
            norm, batch.y.sum()
        )

    batch = Batch(*map(jnp.asarray, (x, y, mask)), jax.random.key(0))
    params = jnp.float32([[1.0, 0.0, 2.0], [0.0, -1.0, 0.5]])
    return mechanism.dp_sgd_gradient(privacy)(loss)(params, (), batch, (), ())


def test_another_example_moves_the_gradient_by_two_norms_at_most():
    silent, mask = Privacy(EXAMPLE, C, 0.0), np.float32([1, 1, 0])
    rest, every = np.float32([[1.0, 2.0], [7.0, 7.0]]), []
    for value, label in itertools.product(VALUES, range(CLASSES)):
        x, y = np.float32([value, *rest]), np.int32([label, 0, 1])
        sum_of_two = 2 * np.asarray(gradient(x, y, mask, silent)[1])
        every.append(sum_of_two)
    assert 1.4 * C < max(moved(every)) <= 2 * C * (1 + 1e-5)


def test_an_example_that_only_pads_has_no_part_in_the_gradient():
    silent = Privacy(EXAMPLE, 1e6, 0.0)
    x, y = np.float32([[1, 2], [3, -1], [50, 50]]), np.int32([0, 1, 2])
    value, grads = gradient(x, y, np.float32([1, 1, 0]), silent)
    alone, wanted = gradient(x[:2], y[:2], np.ones(2, np.float32), silent)
    np.testing.assert_allclose(grads, wanted, rtol=1e-6)
    np.testing.assert_allclose(value[0], alone[0], rtol=1e-6)


def test_there_is_a_derivative_where_an_example_has_none_and_at_zero():
    silent, mask = Privacy(EXAMPLE, C, 0.0), np.float32([1, 0])
    y = np.int32([0, 1])
    of = jax.jacobian(lambda x: gradient(x, y, mask, silent)[1])  # as an attack's is
    found = of(jnp.float32([[1, 2], [3, -1]]))
    assert np.isfinite(found).all() and np.any(found[..., 0, :])
    total = jax.grad(lambda x: mechanism.clip_by_norm(x, C).sum())
    np.testing.assert_array_equal(total(jnp.zeros(3)), 1.0)
    np.testing.assert_allclose(total(jnp.full(3, 0.1)), 1.0)


def test_the_noise_of_a_sum_is_the_multiplier_times_the_norm():
    zeros = jnp.zeros(200_000)
    own = Privacy(EXAMPLE, C, 2.0)
    drawn = mechanism.add_gaussian_noise(
        {"a": zeros, "b": zeros}, own.deviation, jax.random.key(0)
    )
    assert abs(np.std(drawn["a"]) / (2 * C) - 1) < 0.01
    assert abs(np.corrcoef(drawn["a"], drawn["b"])[0, 1]) < 0.01
    shared = Privacy(CLIENT, C, 2.0, among=4.0)
    keys = jax.random.split(jax.random.key(1), 4)
    parts = [mechanism.add_gaussian_noise(zeros, shared.deviation, key) for key in keys]
    assert abs(np.std(sum(parts)) / (2 * C) - 1) < 0.01


def test_joined_uploads_are_means_by_weight_without_unsure_classes():
    sure = Privacy(CLIENT, C, 0.1, among=2.0)  # deviation of the sum: 0.15
    mean = jnp.float32(
        [[[2, 4, 1], [1, 1, 0.1], [0, 0, 0]], [[6, 0, 3], [1, 1, 0.1], [0, 0, 0]]]
    )
    given = sure, release.MEANS, jax.random.key(0)
    made = release.sum_noisy_uploads(Protos(mean, jnp.ones((2, 3))), *given)
    assert made.count.tolist() == [[1, 0, 0]]
    np.testing.assert_allclose(made.mean[0], [[2, 1], [0, 0], [0, 0]])
    nobody = Protos(jnp.zeros((2, 3, 3)), jnp.zeros((2, 3)))
    assert not release.sum_noisy_uploads(nobody, *given).count.any()


def test_the_server_adds_the_noise_of_clients_whose_upload_is_lost():
    """The sum has the noise that is accounted for, whoever comes."""
    own, sums = (
        Privacy(CLIENT, C, 2.0, among=4.0),
        release.MEANS._replace(weighed=False),
    )
    zeros = jnp.zeros((4, 3, 50_000))

    def deviation(there):
        count = jnp.zeros((4, 3)).at[:there].set(1.0)
        shares = mechanism.add_gaussian_noise(zeros, own.deviation, jax.random.key(0))
        up = Protos(jnp.where(count[..., None] > 0, shares, 0.0), count)
        return float(
            release.sum_noisy_uploads(up, own, sums, jax.random.key(1)).mean.std()
        )

    for there in (1, 3, 4):
        assert deviation(there) == pytest.approx(2 * C, rel=0.01)
    exp = build.experiment(small("fedavg", CLIENT), "cpu")
    update = METHODS["fedavg"](exp.spec, privacy=own).update
    total = {"w": jnp.zeros(200_000)}, jnp.float32(1.0)
    after = update.finish(None, total[0], total, jax.random.key(2))
    lost = 2 * C * (3 / 4) ** 0.5
    assert float(after["w"].std()) == pytest.approx(lost, rel=0.01)
    nobody = total[0], jnp.float32(0.0)
    after = update.finish(None, total[0], nobody, jax.random.key(2))
    assert not after["w"].any()


def test_fedavg_sends_a_clipped_change_and_no_size():
    exp = build.experiment(small("fedavg", CLIENT), "cpu")
    method = METHODS["fedavg"](exp.spec, privacy=Privacy(CLIENT, C, 0.0))
    up = FedAvgUpload({"w": jnp.full(4, 10.0)}, jnp.int32(123))
    sent = method.release(None, None, None, up, {"w": jnp.ones(4)}, jax.random.key(0))
    np.testing.assert_allclose(sent.params["w"], 1 + C / 2, rtol=1e-6)
    assert sent.size == 1


def small(name, unit, **changes):
    c = config.experiment(name, "digits")
    c.model.group, c.data.clients, c.rounds = "mlp", 3, 2
    c.privacy.unit = unit
    c.update_from_flattened_dict(changes)
    return c


REFUSED = (
    ("fedkd", CLIENT, {}, "methods with a guarantee"),
    ("fedtgp", EXAMPLE, {}, "protonorm, tinyproto, fedavg"),
    ("fedproto", CLIENT, {"method.aggregate": "mean_over_examples"}, "exact counts"),
    ("tinyproto", CLIENT, {"method.base": "fedtgp"}, "method.base"),
    ("tinyproto", EXAMPLE, {"method.scaling": "mean"}, "method.scaling"),
    ("fedavg", CLIENT, {"method.statistics": "averaged"}, "method.statistics"),
    ("protonorm", EXAMPLE, {"method.reg": "l2_of_means"}, "mixes the examples"),
    ("fedproto", EXAMPLE, {"method.collect": "train_pass"}, "method.collect"),
    ("fedavg", CLIENT, {"participation.law": "random_count"}, "known number"),
    ("fedavg", CLIENT, {"wire.up": "int8"}, "wire.up"),
    ("fedavg", CLIENT, {"data.name": "nodes"}, "data.name is 'nodes'"),
    ("fedproto", EXAMPLE, {"data.name": "nodes"}, "send their exact labels"),
    ("fedavg", "clients", {}, "Did you mean 'client'"),
    ("fedavg", CLIENT, {"privacy.noise": 0.0}, "above 0"),
    ("fedavg", CLIENT, {"privacy.delta": 1.0}, "below 1"),
)


def test_what_has_no_guarantee_is_refused_and_what_has_one_is_not(monkeypatch):
    monkeypatch.setattr(accounting, "check_installed", lambda: None)

    def check(name, unit, changes, said):
        with refused(said):
            config.check(small(name, unit, **changes))

    check_every(REFUSED, check)
    assert {*private.private_methods()} == {
        "fedavg",
        "fedproto",
        "protonorm",
        "tinyproto",
    }
    for name, unit in itertools.product(private.private_methods(), (CLIENT, EXAMPLE)):
        config.check(small(name, unit))
    c = small("fedavg", EXAMPLE, **{"model.group": "resnet18"})
    with refused("BatchNorm"):  # where examples are the unit
        build.experiment(c, "cpu")


def test_without_dp_accounting_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with refused("jaxproto[privacy]"):
        config.check(small("fedavg", CLIENT))


def traced(c):
    exp, texts = build.experiment(c, "cpu"), {}

    def submit(name, f, *rest, **options):
        made = jax.jit(f, **options).trace(exp.floats, *rest)
        texts[name] = str(made.jaxpr)
        return compiler.PendingProgram(made.out_info, None)

    compiler.submit_programs(
        submit, exp, programs.build_programs(exp), build.examples(exp.dataset)
    )
    return texts


def test_clip_and_noise_are_arguments_of_programs_which_off_leaves_as_they_are():
    changes = {"privacy.clip": 3.0, "privacy.noise": 2.0}
    plain, other = small("fedproto", "off"), small("fedproto", "off", **changes)
    assert not any(path.startswith("privacy.") for path in floats.traced_floats(plain))
    assert floats.program_settings(plain) == floats.program_settings(other)
    assert traced(plain) == traced(other)
    assert build.experiment(plain, "cpu").method.release is None
    one = small("fedproto", EXAMPLE)
    other = small("fedproto", EXAMPLE, **changes, **{"privacy.delta": 0.1})
    assert {*changes} <= {*floats.traced_floats(one)}
    assert floats.program_settings(one) == floats.program_settings(other)


@needs_accounting
def test_epsilon_is_that_of_dp_accounting_and_sampling_amplifies():
    import dp_accounting

    one = dp_accounting.get_epsilon_gaussian(1.0, 1e-5)
    assert accounting.epsilon_composed(2.0, 1, 1e-5) == pytest.approx(one, rel=1e-6)
    assert accounting.epsilon_composed(4.0, 4, 1e-5) == pytest.approx(one, rel=1e-6)
    assert one == pytest.approx(4.377, abs=0.001)  # Balle and Wang, Theorem 8
    assert accounting.epsilon_composed(1.0, 0, 1e-5) == 0
    few = accounting.epsilon_subsampled(8.0, 10, 1e-5, accounting.Sampling(1000, 10))
    all_ = accounting.epsilon_subsampled(8.0, 10, 1e-5, accounting.Sampling(1000, 1000))
    plain = accounting.epsilon_composed(8.0, 10, 1e-5)  # without replacement
    assert few < plain / 4 and all_ == pytest.approx(plain)


@needs_accounting
def test_only_clients_that_keep_nothing_are_amplified():
    law = {"participation.law": "uniform", "participation.fraction": 0.34}

    def said(name, unit, **changes):
        c = small(name, unit, **law, **changes)
        return private.epsilon_record(c, np.array([1, 2, 0]), 3)

    assert said("fedavg", CLIENT)["amplified"]
    assert not said("fedavg", EXAMPLE)["amplified"]
    assert not said("fedavg", CLIENT, **{"local.optimizer_state": "keep"})["amplified"]
    proto = said("fedproto", CLIENT)
    assert not proto["amplified"] and proto["most_rounds"] == 2
    assert proto["epsilon"] == accounting.epsilon_composed(1.0, 2, 1e-5)
    example = said("fedproto", EXAMPLE)["epsilon"]  # an epoch and the prototypes
    assert example == accounting.epsilon_composed(1.0, 4, 1e-5)
    assert said("fedavg", EXAMPLE)["epsilon"] == accounting.epsilon_composed(
        1.0, 2, 1e-5
    )


@needs_accounting
@pytest.mark.long
@pytest.mark.parametrize(("name", "unit"), [("fedproto", EXAMPLE), ("fedavg", CLIENT)])
def test_a_run_that_goes_on_ends_in_the_same_bits(name, unit, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "draw_all", lambda *args: None)
    law = {"participation.law": "uniform", "participation.fraction": 0.67}
    quiet, whole = Console(quiet=True), small(name, unit, **law, eval_every=1)
    first = whole.copy_and_resolve_references()
    first.rounds = 1
    for c, part in ((whole, "whole"), (first, "parts"), (whole, "parts")):
        runner.run(c, tmp_path / part, quiet)
    ends = [
        records.read(tmp_path / part / "metrics.jsonl") for part in ("whole", "parts")
    ]
    for record in (*ends[0], *ends[1]):
        del record["seconds"], record["every_round"]
    assert ends[0] == ends[1]
    taken = privacy_ledger.participation_matrix(whole, build.experiment(whole, "cpu"))
    assert taken.sum(1).tolist() == [r["participants"] for r in ends[0]]
    loaded = compare.load(tmp_path / "whole")
    assert loaded.results["privacy"] == ends[0][-1]["privacy"]
    assert ends[0][0]["privacy"]["epsilon"] < ends[0][1]["privacy"]["epsilon"]
    text = compare.render(compare.table(compare.group_by_seed([loaded])), "csv")
    assert "epsilon" in text and unit in text
