"""Identities between methods and between their variants."""

import functools

import jax
import numpy as np
import pytest
from support import toys

from jaxproto import kernels, losses, masks, transforms
from jaxproto.methods.feddistill import feddistill
from jaxproto.methods.fedproto import Pull, before_training, fedproto, train_pass
from jaxproto.methods.fedtgp import ServerTraining, fedtgp
from jaxproto.methods.local import local
from jaxproto.methods.protonorm import protonorm, random_unit
from jaxproto.methods.tinyproto import UNSCALED, Sparsity, tinyproto


@functools.cache
def run(method, **how):
    return toys.run(method, **how)


def trained(method):
    return run(method).params


def scaled_only(upscale):
    """ProtoNorm without alignment."""
    return protonorm(toys.SPEC, alignment=transforms.IDENTITY, upscale=upscale)


BASE = fedproto(toys.SPEC)


def test_without_its_term_a_method_is_local_training():
    plain = trained(local(toys.SPEC))
    free = Pull(lam=0.0)
    for method in (
        fedproto(toys.SPEC, pull=free),
        fedtgp(toys.SPEC, pull=free),
        feddistill(toys.SPEC, lam=0.0),
    ):
        assert toys.gap(trained(method), plain) == 0


def test_what_of_protonorm_and_tinyproto_remains_without_their_parts_is_fedproto():
    whole = tinyproto(
        toys.SPEC, sparsity=Sparsity(masks=masks.full_masks), scaling=UNSCALED
    )
    for plain in (scaled_only(1.0), whole):
        assert toys.gap(trained(plain), trained(BASE)) == 0
    scaled = trained(fedproto(toys.SPEC, upscale=5.0))
    assert toys.gap(trained(scaled_only(5.0)), scaled) == 0
    assert toys.gap(scaled, trained(BASE)) > 1e-4


def test_initial_prototypes_of_protonorm_are_unit_vectors_that_pull_in_round_1():
    """Algorithm 2, line 1; without pull they change nothing."""
    given = {"initial": random_unit, "upscale": 2.0}
    start = protonorm(toys.SPEC, **given).init_server(None, jax.random.key(0)).protos
    np.testing.assert_allclose(np.linalg.norm(start.mean, axis=1), 1.0, rtol=1e-6)
    assert np.all(start.count == 1) and np.ptp(start.mean) > 0.1
    for lam, moved in ((10.0, True), (0.0, False)):
        pull = {"pull": Pull(lam=lam), "upscale": 2.0}
        plain = run(protonorm(toys.SPEC, **pull), rounds=1).params
        drawn = run(protonorm(toys.SPEC, **pull | given), rounds=1).params
        assert (toys.gap(plain, drawn) > 1e-4) == moved


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


def test_every_source_and_pull_differs_and_counts_leave_for_the_weighted_mean_only():
    base = run(BASE)
    for collect in (train_pass, before_training):
        other = run(fedproto(toys.SPEC, pull=Pull(collect=collect))).server.protos
        assert toys.gap(base.server.protos, other) > 1e-4
    for reg in (losses.l2_of_means, losses.sq_l2_mean):
        other = trained(fedproto(toys.SPEC, pull=Pull(reg=reg)))
        assert toys.gap(base.params, other) > 1e-5
    assert run(BASE).report.up.count.max() == 1
    for aggregate in kernels.COUNTED:
        shown = fedproto(toys.SPEC, aggregate=aggregate)
        assert run(shown).report.up.count.max() > 1


def test_prototypes_before_training_in_the_first_round_are_those_of_the_start():
    stale = fedproto(toys.SPEC, pull=Pull(collect=before_training))
    still = toys.run(stale, rounds=1, local=toys.STILL)
    moved = toys.run(stale, rounds=1)
    assert toys.gap(still.server.protos, moved.server.protos) == 0
