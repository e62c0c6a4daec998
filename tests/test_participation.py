"""Who takes part: as many as asked, by identity, and never an empty round."""

import jax
import numpy as np
import pytest
import toys

from jaxproto import participation
from jaxproto.methods import METHODS

KEYS = [jax.random.key(i) for i in range(30)]


def turnouts(law, clients):
    """Trains and reports [rounds, K]."""
    each = [jax.device_get(law(key, clients)) for key in KEYS]
    return tuple(np.stack(part) for part in zip(*each, strict=True))


def test_everyone_trains_and_reports_in_every_round():
    trains, reports = turnouts(participation.everyone(), 7)
    assert trains.all() and reports.all() and trains.shape == (30, 7)


@pytest.mark.parametrize("clients", [1, 4, 10, 25])
@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.3, 0.75, 1.0])
def test_uniform_takes_the_rounded_share_and_at_least_one(fraction, clients):
    trains, reports = turnouts(participation.uniform(fraction), clients)
    assert np.all(trains.sum(1) == max(1, round(fraction * clients)))
    assert np.array_equal(trains, reports)


def test_uniform_differs_between_rounds_and_reaches_everyone_alike():
    trains, _ = turnouts(participation.uniform(0.5), 10)
    assert len({row.tobytes() for row in trains}) > 20
    assert np.all(trains.sum(0) >= 6) and np.all(trains.sum(0) <= 24)  # 15 expected


def test_the_same_round_always_has_the_same_participants():
    first, again = (turnouts(participation.uniform(0.5), 10) for _ in range(2))
    assert np.array_equal(first, again)


def test_participants_do_not_depend_on_the_order_of_clients():
    """The law knows their ids alone."""
    method, law = METHODS["local"](toys.SPEC), participation.uniform(0.5)
    orders = [(0, 1, 2, 3, 4, 5), (4, 1, 5, 3, 0, 2)]
    one, other = (toys.run(method, ((8, o),), rounds=2, law=law) for o in orders)
    took_part = [one.clients[i].steps > 0 for i in range(6)]
    assert took_part == [other.clients[i].steps > 0 for i in range(6)]
    assert 3 <= sum(took_part) < 6
    assert toys.gap(one.params, other.params) == 0


@pytest.mark.parametrize(
    "law", [participation.everyone(), participation.uniform(0.5)], ids=["all", "half"]
)
def test_dropouts_only_take_reports_away(law):
    trains, reports = turnouts(participation.with_dropouts(law, 0.3), 20)
    assert np.all(trains | ~reports)
    assert np.all(trains.sum(1) == turnouts(law, 20)[0].sum(1))
    lost = 1 - reports.sum() / trains.sum()
    assert 0.2 < lost < 0.4


def test_no_dropouts_at_probability_zero():
    trains, reports = turnouts(
        participation.with_dropouts(participation.everyone(), 0), 9
    )
    assert np.array_equal(trains, reports)


def test_a_round_in_which_every_upload_is_lost_leaves_no_prototype():
    law = participation.with_dropouts(participation.everyone(), 1.0)
    r = toys.run(METHODS["fedproto"](toys.SPEC), rounds=1, law=law)
    assert np.all(r.server.protos.count == 0) and np.all(r.report.sent == 0)
    assert np.all(np.isfinite(r.server.protos.mean))
    assert all(client.steps > 0 for client in r.clients.values())
