"""Identities between methods and between their variants."""

import pytest
from support import toys

from jaxproto import kernels, losses, masks, transforms
from jaxproto.methods.fedproto import Pull, before_training, fedproto, train_pass
from jaxproto.methods.fedtgp import ServerTraining, fedtgp
from jaxproto.methods.local import local
from jaxproto.methods.protonorm import protonorm
from jaxproto.methods.tinyproto import UNSCALED, Sparsity, tinyproto


def trained(method):
    return toys.run(method).params


BASE = fedproto(toys.SPEC)


def test_fedproto_without_pull_is_local_training():
    free = fedproto(toys.SPEC, pull=Pull(lam=0.0))
    assert toys.gap(trained(free), trained(local(toys.SPEC))) == 0


def test_protonorm_without_alignment_and_upscaling_is_fedproto():
    plain = protonorm(toys.SPEC, alignment=transforms.IDENTITY, upscale=1.0)
    assert toys.gap(trained(plain), trained(BASE)) == 0


@pytest.mark.long
def test_alignment_and_upscaling_each_change_training():
    both = trained(protonorm(toys.SPEC, upscale=5.0))
    scaled = protonorm(toys.SPEC, alignment=transforms.IDENTITY, upscale=5.0)
    aligned = protonorm(toys.SPEC, upscale=1.0)
    for other in (scaled, aligned, BASE):
        assert toys.gap(both, trained(other)) > 1e-4


def test_fedproto_upscaled_is_protonorm_without_alignment():
    plain = protonorm(toys.SPEC, alignment=transforms.IDENTITY, upscale=5.0)
    scaled = trained(fedproto(toys.SPEC, upscale=5.0))
    assert toys.gap(trained(plain), scaled) == 0
    assert toys.gap(scaled, trained(BASE)) > 1e-4


@pytest.mark.long
def test_fedtgp_upscaled_pulls_to_scaled_prototypes_that_leave_the_server_as_they_are():
    few = {"training": ServerTraining(server_epochs=2)}
    base, scaled = (
        toys.run(fedtgp(toys.SPEC, upscale=u, **few), rounds=2) for u in (1.0, 3.0)
    )
    assert toys.gap(base.params, scaled.params) > 1e-4
    want = fedtgp(toys.SPEC, on_client=transforms.scale(3.0), **few)
    assert toys.gap(toys.run(want, rounds=2).params, scaled.params) == 0
    begun = [
        toys.run(fedtgp(toys.SPEC, upscale=u, **few), rounds=1) for u in (1.0, 3.0)
    ]
    assert toys.gap(*(r.server.protos.mean for r in begun)) == 0  # no pull before


def test_tinyproto_that_keeps_all_and_scales_nothing_is_fedproto():
    whole = tinyproto(toys.SPEC, sparsity=Sparsity(masks=masks.every), scaling=UNSCALED)
    assert toys.gap(trained(whole), trained(BASE)) == 0


def test_fedtgp_without_pull_is_local_training():
    free = fedtgp(toys.SPEC, pull=Pull(lam=0.0))
    assert toys.gap(trained(free), trained(local(toys.SPEC))) == 0


def test_every_source_of_prototypes_differs():
    base = toys.run(BASE).server.protos
    for collect in (train_pass, before_training):
        other = toys.run(fedproto(toys.SPEC, pull=Pull(collect=collect))).server.protos
        assert toys.gap(base, other) > 1e-4


def test_every_pull_differs():
    base = trained(BASE)
    for reg in (losses.l2_of_means, losses.sq_l2_mean):
        assert toys.gap(base, trained(fedproto(toys.SPEC, pull=Pull(reg=reg)))) > 1e-5


def test_counts_leave_the_client_only_for_the_weighted_mean():
    shown = fedproto(toys.SPEC, aggregate=kernels.mean_over_examples)
    assert toys.run(BASE).report.up.count.max() == 1
    assert toys.run(shown).report.up.count.max() > 1


def test_prototypes_before_training_in_the_first_round_are_those_of_the_start():
    stale = fedproto(toys.SPEC, pull=Pull(collect=before_training))
    still = toys.run(stale, rounds=1, local=toys.STILL)
    moved = toys.run(stale, rounds=1)
    assert toys.gap(still.server.protos, moved.server.protos) == 0
