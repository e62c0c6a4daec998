"""Identities between methods and between their variants."""

import jax
import numpy as np
import pytest
from support import toys
from support.averaging import run
from support.exchange import alone, on_batch

from jaxproto import masks, transforms
from jaxproto.methods.feddistill import feddistill
from jaxproto.methods.fedproto import Pull, before_training, fedproto
from jaxproto.methods.fedtgp import ServerTraining, fedtgp
from jaxproto.methods.local import local
from jaxproto.methods.protonorm import protonorm, random_unit
from jaxproto.methods.tinyproto import UNSCALED, Sparsity, tinyproto


def trained(method):
    return run(method, 3).params


def scaled_only(upscale):
    return protonorm(toys.SPEC, alignment=transforms.IDENTITY, upscale=upscale)


BASE = fedproto(toys.SPEC)


WITHOUT = [
    fedproto(toys.SPEC, pull=Pull(lam=0.0)),
    pytest.param(fedtgp(toys.SPEC, pull=Pull(lam=0.0)), marks=pytest.mark.long),
    pytest.param(feddistill(toys.SPEC, lam=0.0), marks=pytest.mark.long),
]


@pytest.mark.parametrize("method", WITHOUT, ids=["fedproto", "fedtgp", "feddistill"])
def test_without_its_term_a_method_is_local_training(method):
    assert toys.gap(trained(method), alone()) == 0


def test_what_of_protonorm_and_tinyproto_remains_without_their_parts_is_fedproto():
    every = Sparsity(masks=masks.full_masks)
    whole = tinyproto(toys.SPEC, sparsity=every, scaling=UNSCALED)
    assert toys.gap(trained(whole), trained(BASE)) == 0
    scaled = trained(fedproto(toys.SPEC, upscale=5.0))
    assert toys.gap(trained(scaled_only(5.0)), scaled) == 0
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
def test_alignment_and_upscaling_each_change_training():
    both = trained(protonorm(toys.SPEC, upscale=5.0))
    aligned = protonorm(toys.SPEC, upscale=1.0)
    for other in (scaled_only(5.0), aligned, BASE):
        assert toys.gap(both, trained(other)) > 1e-4


@pytest.mark.long
def test_fedtgp_upscaled_pulls_to_scaled_prototypes_that_leave_the_server_as_they_are():
    few = {"training": ServerTraining(server_epochs=2)}
    both = [fedtgp(toys.SPEC, upscale=u, **few) for u in (1.0, 3.0)]
    base, scaled = (run(m, rounds=2) for m in both)
    assert toys.gap(base.params, scaled.params) > 1e-4
    want = fedtgp(toys.SPEC, on_client=transforms.scale(3.0), **few)
    assert toys.gap(run(want, rounds=2).params, scaled.params) == 0
    begun = [run(m, rounds=1) for m in both]
    assert toys.gap(*(r.server.protos.mean for r in begun)) == 0  # no pull before


def test_prototypes_before_training_in_the_first_round_are_those_of_the_start():
    stale = fedproto(toys.SPEC, pull=Pull(collect=before_training))
    still = toys.run(stale, rounds=1, local=toys.STILL).server.protos
    moved = toys.run(stale, rounds=1).server.protos
    assert toys.gap(still, moved) == 0
    assert toys.gap(moved, run(BASE, rounds=1).server.protos) > 1e-4
