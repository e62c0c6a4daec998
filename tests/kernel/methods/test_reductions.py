"""Identities between methods, between their variants and between phases."""

import jax
import numpy as np
import optax
import pytest
from support import toys
from support.averaging import begun, make, run
from support.exchange import on_batch

from jaxproto.core import batches
from jaxproto.methods.fedproto import Pull, before_training, fedproto
from jaxproto.methods.fedtgp import ServerTraining, fedtgp
from jaxproto.methods.local import local
from jaxproto.methods.protonorm import protonorm, random_unit
from jaxproto.methods.tinyproto import UNSCALED, Sparsity, tinyproto
from jaxproto.prototypes import masks, transforms


def trained(method):
    return run(method, 3).params


BASE = fedproto(toys.SPEC)


def test_without_its_pull_fedproto_is_local_training():
    without = trained(fedproto(toys.SPEC, pull=Pull(lam=0.0)))
    assert toys.gap(without, toys.run(local(toys.SPEC)).params) == 0


def test_tinyproto_that_sends_all_entries_unscaled_is_fedproto():
    every = Sparsity(masks=masks.full_masks)
    whole = tinyproto(toys.SPEC, sparsity=every, scaling=UNSCALED)
    assert toys.gap(trained(whole), trained(BASE)) == 0


@pytest.mark.long
def test_protonorm_without_alignment_is_fedproto_upscaled():
    scaled = trained(fedproto(toys.SPEC, upscale=5.0))
    scaled_only = protonorm(toys.SPEC, alignment=transforms.IDENTITY, upscale=5.0)
    assert toys.gap(trained(scaled_only), scaled) == 0
    assert toys.gap(scaled, trained(BASE)) > 1e-4


def test_initial_prototypes_of_protonorm_are_unit_vectors_that_pull_in_round_1():
    """Algorithm 2, line 1; without pull they change nothing."""
    plain = on_batch(local(toys.SPEC))[0]
    for lam in (10.0, 0.0):
        method = protonorm(toys.SPEC, initial=random_unit, pull=Pull(lam=lam))
        start = method.init_server(None, jax.random.key(0))
        pulled = on_batch(method, method.broadcast(start))[0] - plain
        assert (abs(pulled) > 1e-4) == (lam > 0)
    mean = start.protos.mean
    np.testing.assert_allclose(np.linalg.norm(mean, axis=1), 1.0, rtol=1e-6)
    assert np.all(start.protos.count == 1) and np.ptp(mean) > 0.1


@pytest.mark.long
def test_fedtgp_upscaled_pulls_to_scaled_prototypes():
    few, times_3 = {"training": ServerTraining(server_epochs=2)}, transforms.scale(3.0)
    kinds = {}, {"upscale": 3.0}, {"on_client": times_3}
    base, scaled, want = (trained(fedtgp(toys.SPEC, **few, **k)) for k in kinds)
    assert toys.gap(base, scaled) > 1e-4 and toys.gap(want, scaled) == 0


@pytest.mark.long
def test_prototypes_before_training_in_the_first_round_are_those_of_the_start():
    stale = fedproto(toys.SPEC, pull=Pull(collect=before_training))
    still = toys.run(stale, rounds=1, local=toys.STILL).server.protos
    moved = toys.run(stale, rounds=1).server.protos
    assert toys.gap(still, moved) == 0
    assert toys.gap(moved, run(BASE, rounds=1).server.protos) > 1e-4


def test_fedrep_trains_the_head_and_then_the_body_alone():
    """The head ends as if there were no second epoch, also with momentum."""

    def after(share, epochs):
        order = {"order": batches.fixed, "epochs": epochs, "batch_size": 4}
        local = toys.LocalTraining(optax.sgd(0.05, 0.9), **order)
        r = toys.run(make("fedrep", head_share=share), rounds=1, local=local)
        return [r.params[i]["net"] for i in range(6)]

    begin = begun(make("fedrep"))
    for two, first in zip(after(0.5, 2), after(1.0, 1), strict=True):
        assert toys.gap(first["body"], begin) == 0
        assert toys.gap(two["head"], first["head"]) < 1e-6
        assert toys.gap(two["body"], begin) > 1e-3
