"""What the guarantee claims: noise without an edge, shares, texts, overflows, ends."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from scipy import stats
from support.refusal import refused

from jaxproto import config
from jaxproto.config import privacy as private
from jaxproto.data import text
from jaxproto.experiment import build
from jaxproto.losses import cross_entropy
from jaxproto.privacy import CLIENT, EXAMPLE, Privacy, mechanism
from jaxproto.reporting.analysis import disclosure
from jaxproto.summary import pictures
from jaxproto.training import runner
from jaxproto.types import Batch, LossAux

pytest.importorskip("dp_accounting", reason="extra `privacy`")
DRAWS = 2_000_000


def test_noise_has_no_edge_that_another_data_set_passes(monkeypatch):
    noise = mechanism.add_gaussian_noise(jnp.zeros(DRAWS), 1.0, jax.random.key(0))
    for tail in (1.0, 3.0, 4.0):  # sizes as of a Gaussian, within four deviations
        expected = DRAWS * 2 * stats.norm.sf(tail)
        assert abs((np.abs(noise) > tail).sum() - expected) < 4 * expected**0.5
    # the largest number that a draw of float32 can be, in every draw
    largest = float(jnp.sqrt(2.0) * jax.lax.erf_inv(jnp.nextafter(jnp.float32(1), 0)))
    assert largest == pytest.approx(5.42, abs=0.01)
    monkeypatch.setattr(
        jax.random, "normal", lambda key, shape, dtype: jnp.full(shape, -5.22, dtype)
    )
    noise = mechanism.add_gaussian_noise(jnp.zeros(3), 1.0, jax.random.key(0))
    assert np.all(np.abs(noise) > 10)


def small(method, unit, **changes):
    c = config.experiment(method, "digits")
    c.model.group, c.data.clients, c.rounds = "mlp", 3, 2
    c.privacy.unit = unit
    c.update_from_flattened_dict({k.replace("__", "."): v for k, v in changes.items()})
    return c


@pytest.mark.parametrize(
    ("clients", "noise", "rounds", "epsilon"),
    [(3, 4.0, 20, 14.83), (20, 4.0, 20, 11.85), (2, 1.0, 1, 15.5), (1, 1.0, 1, 10.0)],
)
def test_a_participant_knows_its_own_share_of_the_noise(
    clients, noise, rounds, epsilon
):
    c = small("fedproto", CLIENT, data__clients=clients, privacy__noise=noise)
    found = private.epsilon_record(c, np.full(clients, rounds), rounds)
    assert found["epsilon"] == pytest.approx(epsilon, abs=0.05)


def test_a_participant_of_a_sampled_round_knows_of_the_others():
    law = {"participation__law": "uniform", "participation__fraction": 0.5}
    c = small("fedavg", CLIENT, data__clients=4, privacy__noise=8.0, **law)
    found = private.epsilon_record(c, np.full(4, 5), 10)
    others = private.accounting.Sampling(3, 2)  # and 1 share of the noise
    wanted = private.accounting.epsilon_subsampled(8 / 2**0.5, 10, 1e-5, others)
    assert found["amplified"] and found["epsilon"] == pytest.approx(wanted)


def on_texts(path, rare, **changes):
    """FedAvg on texts, of which one may have a rare word."""
    lines = [f"{('good', 'bad')[n % 2]} day,{n % 2}\n" for n in range(40)]
    path.write_text("".join([f"{rare},0\n", *lines]))
    fields = {"data__name": f"csv:{path}", "data__partition": "iid"}
    fields |= {"model__group": "fasttext", "data__max_len": 4}
    return small("fedavg", EXAMPLE, **fields, **changes)


def test_texts_need_a_public_vocabulary(tmp_path):
    c = on_texts(tmp_path / "texts.csv", "good day")
    with refused("privacy.unit is 'example' and data.tokens is ''"):
        build.experiment(c, "cpu")
    public = tmp_path / "vocabulary.txt"
    text.write(public, (*text.SPECIAL, "day", "good"))
    found = []
    for rare in ("good day", "patient smithson"):
        c = on_texts(tmp_path / "texts.csv", rare, data__tokens=str(public))
        found.append(build.experiment(c, "cpu").dataset.tokens)
    assert found == [(*text.SPECIAL, "day", "good")] * 2
    c.data.tokens = str(tmp_path / "none.txt")
    with refused("data.tokens: no such file"):
        build.experiment(c, "cpu")


def gradient(x, y):
    """Clipped gradient of a linear model whose weights may overflow with `x`."""

    def loss(params, norm, batch, down, client):
        logits = batch.x @ params
        value = cross_entropy(logits, batch.y, batch.mask)
        return value, LossAux(norm, jnp.zeros(()))

    batch = Batch(jnp.asarray(x), jnp.asarray(y), jnp.ones(len(x)), jax.random.key(0))
    silent = mechanism.dp_sgd_gradient(Privacy(EXAMPLE, 1.0, 0.0))(loss)
    return silent(jnp.float32([[1, 0, 2], [0, -1, 0.5]]), (), batch, (), ())


@pytest.mark.parametrize("bad", [3e38, np.inf, np.nan])
def test_an_example_that_overflows_has_no_part_in_the_sum(bad):
    x, y = np.float32([[1, 2], [bad, -bad], [3, -1]]), np.int32([0, 1, 2])
    (value, _), grads = gradient(x, y)
    _, wanted = gradient(x[[0, 2]], y[[0, 2]])
    assert np.isfinite(value)
    np.testing.assert_allclose(3 * grads, 2 * wanted, rtol=1e-5)
    clipped = mechanism.clip_by_norm({"a": jnp.asarray(x), "b": jnp.ones(2)}, 1.0)
    assert all(np.isfinite(a).all() for a in clipped.values())
    rows = mechanism.rows_clipped(jnp.asarray(x), 1.0)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), [1, 0, 1], rtol=1e-6)


def test_norms_and_sums_are_made_of_full_products():
    traced = str(
        jax.make_jaxpr(gradient)(np.ones((2, 2), np.float32), np.zeros(2, int))
    )
    assert traced.count("dot_general") == traced.count("Precision.HIGHEST") / 2 > 0
    with refused("model.compute_dtype"):
        config.check(small("fedavg", EXAMPLE, model__compute_dtype="bfloat16"))


def test_a_run_counts_the_round_in_which_it_diverged(tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "draw_all", lambda *args: None)
    c = small("fedavg", CLIENT, optimizer__learning_rate=1e38)
    summary = runner.run(c, tmp_path, Console(quiet=True))
    assert summary["status"] == "diverged" and summary["rounds"] == 0
    spent = private.epsilon_record(c, np.ones(3), 1)
    assert summary["privacy"] == spent | {"rehearsed": True}


def test_what_nodes_send_besides_uploads_is_listed():
    notes = {unit: listed(unit) for unit in ("off", CLIENT, EXAMPLE)}
    for said in notes.values():
        assert "steps, finite, sent" in said and "evaluation sums" in said
    assert (
        "mean training loss" in notes["off"] and "mean training loss" in notes[CLIENT]
    )
    assert "no training loss" in notes[EXAMPLE]


def listed(unit: str) -> str:
    return "\n".join(disclosure.view(small("fedavg", unit), False).notes)
