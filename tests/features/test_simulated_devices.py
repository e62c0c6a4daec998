"""Devices of simulated time: drawn, read, matched with networks, and refused."""

import jax
import numpy as np
from support.refusal import refused
from support.runs import devices, digits

from jaxproto.experiment import build
from jaxproto.features.timing import devices as simulated_devices
from jaxproto.features.timing.devices import Devices, devices_of


def test_drawn_devices_spread_around_their_medians():
    c = digits(time__devices="lognormal", time__speed=3.0, time__sigma=0.0)
    speed_K, bandwidth_K = devices_of(c)
    assert speed_K.tolist() == [3e9] * 3 and bandwidth_K.tolist() == [1.25e6] * 3
    c.data.clients, c.time.sigma = 4000, 0.5
    logs = np.log(devices_of(c).speed_K / 3e9)
    np.testing.assert_allclose([logs.mean(), logs.std()], [0, 0.5], atol=0.03)
    c.seed += 1
    np.testing.assert_array_equal(logs, np.log(devices_of(c).speed_K / 3e9))


def test_faster_devices_have_networks_with_more_work():
    some = Devices(np.array([3.0, 1.0, 2.0]), np.array([30.0, 10.0, 20.0]))
    work_K = np.array([5.0, 5.0, 1.0])
    speed_K, bandwidth_K = simulated_devices.match_networks(some, work_K)
    assert speed_K.tolist() == [2, 3, 1] and bandwidth_K.tolist() == [20, 30, 10]


def test_the_operations_of_a_step_are_those_of_its_products():
    """Forward and both gradients: 6 per weight and example, 4 in the first layer."""
    c = digits("local")
    exp = build.experiment(c, "cpu")
    net, local = exp.cohorts[0].net, exp.local
    params, _ = jax.eval_shape(net.init, jax.random.key(0))
    weights = [a.size for a in jax.tree.leaves(params) if a.ndim == 2]
    first = 64 * 256
    assert first in weights
    wanted = local.batch_size * (6 * sum(weights) - 2 * first)
    given = exp.parts, exp.floats, net, exp.dataset
    found = simulated_devices.step_operations(*given)
    assert wanted < found < 1.1 * wanted


def test_the_seconds_of_a_step_do_not_depend_on_values_that_cells_of_a_sweep_vary():
    one, two = (digits(time__devices="lognormal", method__lam=v) for v in (1.0, 5.0))
    seconds = [
        build.experiment(c, "cpu").floats[simulated_devices.STEP] for c in (one, two)
    ]
    np.testing.assert_array_equal(*seconds)


def test_files_without_a_device_for_each_client_are_refused(tmp_path):
    for lines, message in (
        (["0,1,1", "1,1,1", "1,1,1"], "not one for each client"),
        (["0,1,1", "1,0,1", "2,1,1"], "client 1 has a speed or a bandwidth"),
        (["0,1,1", "1,fast,1", "2,1,1"], "cannot be read (could not convert"),
    ):
        file = devices(tmp_path / "d.csv", *lines)
        with refused(message):
            devices_of(digits(time__devices=file))


def test_unknown_laws_and_two_exchanges_are_refused():
    with refused("unknown time.devices 'lognorm'. Did you mean 'lognormal'?"):
        devices_of(digits(time__devices="lognorm"))
    with refused("refprotofl has two exchanges per round"):
        build.experiment(digits("refprotofl", time__devices="lognormal"), "cpu")
