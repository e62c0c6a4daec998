"""A round costs its participants: rows are taken out and put back, nothing else."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import quick, runs, toys
from support.every import check_every
from support.refusal import refused

from jaxproto.core.types import Client
from jaxproto.experiment import build
from jaxproto.methods import METHODS
from jaxproto.round import execution, participation
from jaxproto.round.evaluation import BY_EXAMPLE, hits_of
from jaxproto.round.participation import Participation
from jaxproto.storage import checkpoint
from jaxproto.training.programs import State

quick_runs = quick.quick_runs  # a fixture of all tests here
HALF = participation.uniform(0.5)
MODES = {"one": execution.one_by_one(), "chunks": execution.in_chunks(2)}
MODES |= {"all": execution.in_chunks(6)}


def there(*ids, clients=6):
    on_K = jnp.zeros(clients, bool).at[jnp.asarray(ids, int)].set(True)
    return Participation(on_K, on_K)


def cases(first, others):
    """Methods and forms of execution, of which all but the first are long."""
    long = [pytest.param(case, marks=pytest.mark.long) for case in others.split(", ")]
    return pytest.mark.parametrize("case", [first, *long])


SUMS = "fedavg one, fedavg all, fednova chunks, fast one, fedper all"
OTHERS = "fedproto chunks, local all, fedavg chunks, fedgh one, fedtgp all"


# who sits out would have the head of the server, if it did not keep its own
@cases("lg_fedavg one", f"{OTHERS}, fedproto one, refprotofl chunks")
def test_a_round_of_participants_is_that_of_all_clients(case):
    """Server and clients agree; who sits out keeps every bit."""
    name, mode = case.split()
    method = METHODS[name](toys.SPEC)
    layout = toys.HOM if method.homogeneous else toys.HET
    most = 3 if method.homogeneous else 2
    given = {"layout": layout, "mode": MODES[mode], "rounds": 2}
    # of each architecture two take part at most
    sampler = HALF if method.homogeneous else lambda key, n, r: there(0, 3, 4)
    whole = toys.run(method, sampler=sampler, **given)
    part = toys.run(method, sampler=sampler, most=most, **given)
    assert toys.gap(whole.server, part.server) < 2e-5
    assert toys.gap(whole.clients, part.clients) < 2e-5
    start = toys.run(method, sampler=sampler, **{**given, "rounds": 0})
    away = [i for i in range(6) if whole.clients[i].steps == 0]
    assert away and all(toys.gap(start.clients[i], part.clients[i]) == 0 for i in away)


@pytest.mark.long
@pytest.mark.parametrize("case", SUMS.split(", "))
def test_a_sum_as_clients_end_is_the_update_of_all_uploads(case):
    name, mode = case.split()
    method = METHODS[name](toys.SPEC)
    assert method.aggregation.summand is not None
    given = {"mode": MODES[mode], "rounds": 2, "sampler": HALF}
    whole = toys.run(method, **given)
    summed = toys.run(method, sums=True, most=3, **given)
    assert toys.gap(whole.server, summed.server) < 1e-5
    assert not jax.tree.leaves([r.up for r in summed.report])


def small(method="fedavg", **fields):
    five = {"data__clients": 5, "rounds": 2}
    five |= {"participation__law": "uniform", "participation__fraction": 0.4}
    return runs.digits(method, **five | fields)


@pytest.mark.long
def test_clients_that_keep_nothing_train_the_same_network(tmp_path):
    """Each test and validation example is evaluated once, for its client."""
    for store in ("auto", "device"):
        c = small(clients__store=store, data__validation_share=0.2)
        runs.run(c, tmp_path / store)
    both = (runs.records(tmp_path / store) for store in ("device", "auto"))
    for kept, free in zip(*both, strict=True):
        assert set(free["rules"]) == {"received"} < set(kept["rules"])
        for part in ("rules", "validation"):
            assert free[part]["received"] == kept[part]["received"]
        assert free["loss"] == pytest.approx(kept["loss"], rel=1e-5)
        assert free["bytes_by_client"] == kept["bytes_by_client"]


def test_examples_that_clients_share_are_evaluated_once():
    """An official test part is everybody's; others are joined."""
    tests = BY_EXAMPLE.tests
    same, own = [np.arange(100)] * 3, [np.array([7, 3]), np.array([9]), np.array([3])]
    assert tests([same]).index.size == 128  # two batches of 64
    assert tests([own]).index.ravel().tolist() == [3, 7, 9]
    assert hits_of(same, np.arange(128) % 2 == 0).tolist() == [50, 50, 50]
    right = np.array([True, False, True])  # of examples 3, 7, 9
    assert hits_of(own, right).tolist() == [1, 1, 1]


def test_what_clients_kept_in_an_older_run_is_passed_over(tmp_path):
    params, two = {"w": np.ones((2, 3))}, np.arange(2)
    client = Client(params, {}, {}, (), np.ones((2, 5)), two, two)
    state = State(np.ones(3), (client,), np.zeros(2, np.int64))
    checkpoint.save(tmp_path, 1, state)
    like = state._replace(clients=(client.replace(params=()),))
    found = checkpoint.restore_latest(tmp_path, like)
    assert found.state.clients[0].params == ()
    other = state._replace(clients=(client.replace(params={"v": np.ones(1)}),))
    with refused("is not of this run"):
        checkpoint.restore_latest(tmp_path, other)


def test_a_store_for_nothing_is_refused_where_clients_keep_something(tmp_path):
    with refused("store is none, but with method"):
        runs.run(small("fedproto", clients__store="none"), tmp_path)


def test_clients_are_kept_unless_they_begin_with_what_they_receive():
    """Networks of their own, BatchNorm statistics and optimisers go on."""
    momentum = {"optimizer__momentum": 0.9, "local__optimizer_state": "keep"}

    def check(method, stateless, **fields):
        (cohort,) = build.experiment(small(method, **fields), "cpu").cohorts
        assert cohort.stateless == stateless

    check_every([(method, True) for method in ("fedavg", "fednova", "fast")], check)
    kept = ("local", "fedproto", "lg_fedavg", "fedper")
    check_every([(method, False) for method in kept], check)
    check("fedavg", False, model__group="resnet4")
    check("fedavg", False, **momentum)


@pytest.mark.long
def test_there_is_room_for_whom_a_sampler_draws_and_it_is_that_of_nearby_shares():
    """A sampler of one's own may draw everybody."""
    few, many = participation.uniform(0.2), participation.uniform(0.6)
    samplers = [participation.all_clients(), participation.uniform(0.13)]
    samplers += [participation.beta(0.3), participation.cyclic(0.4, 3)]
    samplers += [participation.circular(6), participation.random_count()]
    samplers.append(participation.mixture(few, many, 0.5))
    samplers.append(participation.with_dropouts(few, 0.5))
    for make, clients in itertools.product(samplers, (1, 7)):
        most = participation.max_clients(make, clients)
        drawn = [make(jax.random.key(r), clients, r).trains.sum() for r in range(4)]
        assert max(drawn) <= most <= participation.row_count(most)
    assert participation.max_clients(lambda key, n, r: there(0, clients=n), 9) == 9
    assert {participation.row_count(n) for n in (97, 100, 104)} == {104}
    for clients, share in itertools.product((20, 99_999), np.linspace(0.001, 1, 29)):
        drawn = participation.count_of_fraction(float(share), clients)
        assert participation.max_of_fraction(float(share))(clients) == int(drawn)


@pytest.mark.parametrize(
    ("name", "share"), [("fedavg", 1.0), ("protonorm", 0.4), ("refprotofl", 0.4)]
)
@pytest.mark.long
def test_calls_side_by_side_change_no_number_of_a_client(
    tmp_path, monkeypatch, name, share
):
    """Nor one of the server, but where it adds uploads up: to rounding."""
    told = {}
    for cores in (1, 3):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        law = "uniform" if share < 1 else "all"
        fields = {"participation__law": law, "participation__fraction": share}
        c = small(name, data__clients=8, eval_every=1, **fields)
        exp = build.experiment(c, "cpu")
        assert {exp.num_calls(cohort) for cohort in exp.cohorts} == {cores}
        runs.run(c, tmp_path / str(cores))
        told[cores] = runs.records(tmp_path / str(cores))
    for one, several in zip(told[1], told[3], strict=True):
        assert one["rules"] == several["rules"]
        assert one["loss"] == pytest.approx(several["loss"], rel=1e-5)
        assert one["bytes_by_client"] == several["bytes_by_client"]
