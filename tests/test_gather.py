"""A round costs its participants: rows are taken out and put back, nothing else."""

import dataclasses
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support import quick, runs, toys
from support.refusal import refused

from jaxproto import client as clients_
from jaxproto import config, execution, gather, participation
from jaxproto.evaluation import hits_of
from jaxproto.experiment import build, cohorts, statelessness
from jaxproto.methods import METHODS
from jaxproto.participation import Participation
from jaxproto.storage import checkpoint
from jaxproto.training import client_store, run_evaluation
from jaxproto.training.programs import State
from jaxproto.types import Client, Net, Shard

quick_runs = quick.quick_runs  # a fixture of all tests here
HALF = participation.uniform(0.5)
MODES = {"one": execution.one_by_one(), "chunks": execution.in_chunks(2)}
MODES |= {"all": execution.all_at_once()}


def there(*ids, clients=6):
    on_K = jnp.zeros(clients, bool).at[jnp.asarray(ids, int)].set(True)
    return Participation(on_K, on_K)


def test_rows_are_the_participants_in_the_order_of_the_cohort_and_go_back_alone():
    """Rows of all clients are not moved."""
    cohort = jnp.asarray([4, 0, 5, 2])
    ((place, ids),) = gather.participant_places(there(0, 2, 3), cohort, 3)
    assert place.tolist() == [1, 3, 4] and ids.tolist() == [0, 2, 6]
    lost = there(0, 2)._replace(reports=there(2).reports)
    flags = gather.participation_flags(lost, ids)
    assert flags.trains.tolist() == [True, True, False]
    assert flags.reports.tolist() == [False, True, False]
    ((place, _),) = gather.participant_places(there(1, 4), jnp.arange(6), 3)
    a = jnp.arange(6.0)
    assert gather.take_rows(a, place)[:2].tolist() == [1, 4]
    new = gather.scatter(a, [place], [jnp.asarray([7.0, 8.0, 9.0])])
    assert new.tolist() == [0, 7, 2, 3, 8, 5]
    ids = jnp.arange(6)
    ((place, same),) = gather.participant_places(there(1), ids, 6)
    assert place is None and same is ids and gather.take_rows(a, place) is a
    assert gather.scatter(a, [place], [a + 1]).tolist() == (a + 1).tolist()


def test_every_participant_is_in_one_lane_and_parts_are_joined_in_the_order_of_ids():
    ids = jnp.arange(10) + 3
    for clients, number in ((1, 2), (6, 2), (7, 3)):
        here = there(*range(3, 3 + clients), clients=20)
        lanes = [own for _, own in gather.participant_places(here, ids, 7, number)]
        used = [[i for i in own.tolist() if i < 20] for own in lanes]
        assert sorted(itertools.chain(*used)) == list(range(3, 3 + clients))
        assert np.ptp([len(own) for own in used]) <= 1
        assert len({len(own) for own in lanes}) == 1
    for count in (1, 4, 5, 6):
        a = np.arange(count * 2).reshape(count, 2)
        lanes = client_store._in_lanes(Shard(a, a[:, 0]), 3)
        assert np.array_equal(run_evaluation.in_order_of_places(lanes).index, a)
    ids = [jnp.asarray([4, 9]), (1, 2, 9)]
    parts = [jnp.asarray([40, -1]), jnp.asarray([10, 20, -1])]
    assert gather.join_by_id(ids, parts)[:3].tolist() == [10, 20, 40]


def cases(first, others):
    """Methods and forms of execution, of which all but the first are long."""
    long = [pytest.param(case, marks=pytest.mark.long) for case in others.split(", ")]
    return pytest.mark.parametrize("case", [first, *long])


OTHERS = "fedproto chunks, local all, fedavg chunks, fedgh one, fedtgp all"


@cases("fedproto one", f"{OTHERS}, lg_fedavg one, refprotofl chunks")
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


@cases("fedavg one", "fedavg all, fednova chunks, fast one, fedper all")
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
    five = {"data__clients": 5, "model__group": "mlp", "rounds": 2}
    five |= {"participation__law": "uniform", "participation__fraction": 0.4}
    return runs.small(method, "digits", **five | fields)


@pytest.mark.long
def test_clients_that_keep_nothing_train_the_same_network(tmp_path):
    for store in ("auto", "device"):
        runs.run(small(clients__store=store), tmp_path / store)
    both = (runs.records(tmp_path / store) for store in ("device", "auto"))
    for kept, free in zip(*both, strict=True):
        assert set(free["rules"]) == {"received"} < set(kept["rules"])
        assert free["rules"]["received"] == kept["rules"]["received"]
        assert free["loss"] == pytest.approx(kept["loss"], rel=1e-5)
        assert free["bytes_by_client"] == kept["bytes_by_client"]
    saved = ((tmp_path / s / "checkpoints").rglob("*") for s in ("auto", "device"))
    auto, device = (sum(f.stat().st_size for f in s if f.is_file()) for s in saved)
    assert auto < device / 3


def test_examples_that_clients_share_are_evaluated_once():
    """An official test part is everybody's; others are joined."""
    (cohort,) = toys.cohorts((8, (0, 1, 2)))
    tests = toys.planned(cohort, ("received",)).scoring.tests
    same, own = [np.arange(100)] * 3, [np.array([7, 3]), np.array([9]), np.array([3])]
    assert tests([same]).index.size == 128  # two batches of 64
    assert tests([own]).index.ravel().tolist() == [3, 7, 9]
    hit = np.arange(128) % 2 == 0
    assert hits_of(same, hit).tolist() == [50, 50, 50]
    right = np.array([True, False, True])  # of examples 3, 7, 9
    assert hits_of(own, right).tolist() == [1, 1, 1]
    assert hits_of(own, ~right).tolist() == [1, 0, 0]
    held = [np.array([120 + k]) for k in range(3)]  # beside the common test examples
    every = np.r_[tests([same, held]).index.ravel()]
    assert every[:103].tolist() == [*range(100), 120, 121, 122]
    assert hits_of([*same, *held], every % 2 == 0).tolist() == [50, 50, 50, 1, 0, 1]


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


def test_a_store_or_a_sample_that_cannot_be_is_refused(tmp_path):
    with refused("store is none, but with method"):
        runs.run(small("fedproto", clients__store="none"), tmp_path)
    for given in ("0", "some", "2.5"):
        with refused("it is all, or a number of clients"):
            config.check(small(eval__clients=given))


@pytest.mark.long
def test_a_sample_of_the_clients_is_evaluated_always_that_of_the_record(tmp_path):
    c = small("fedproto", rounds=1, eval__clients="3")
    runs.run(c, tmp_path / "3")
    exp = build.experiment(c, "cpu")
    ids = [i for cohort in exp.cohorts for i in cohorts.evaluated_ids(cohort)]
    assert len(ids) == 3 and sum(len(s.size) for s in exp.test) == 3
    examples = sum(len(exp.partition.test[i]) for i in ids)
    c.eval.clients = "all"
    runs.run(c, tmp_path / "all")
    some, every = (runs.records(tmp_path / name) for name in ("3", "all"))
    for one, whole in zip(some, every, strict=True):
        assert one["evaluated_clients"] == 3 and "evaluated_clients" not in whole
        assert one["loss"] == whole["loss"]
        right = one["rules"]["head"]["pooled"] * examples
        assert right == pytest.approx(round(right)) and right > 0


def asks(name, stateful=True, opt=clients_.reset_opt_state):
    """Returns whether uploads depend on clients' state, and the rules that do not."""
    method, net = METHODS[name](toys.SPEC), toys.net(8)
    norm = net.init(jax.random.key(0))[1]
    plain = Net(  # a network without statistics
        lambda key: (net.init(key)[0], {}),
        lambda params, own, *rest: net.apply(params, norm, *rest)._replace(norm=own),
        net.head,
    )
    sgd = optax.sgd(0.1, momentum=0.9)
    local = dataclasses.replace(toys.LOCAL, opt=sgd, init_opt_state=opt)
    args = method, net if stateful else plain, local
    examples = jax.eval_shape(lambda: toys.pool_and_rows()[0])
    given = statelessness.client_shapes(*args, toys.SPEC.num_classes, examples, 2)
    kept = statelessness.upload_depends_on_state(*args, given)
    return kept, statelessness.client_independent_rules(*args[:2], given)


def test_clients_are_kept_unless_they_begin_with_what_they_receive():
    """Networks of their own, BatchNorm statistics and optimisers go on."""
    for name in ("fedavg", "fednova", "fast"):
        assert asks(name, stateful=False) == (False, ("received",)), name
    for name in ("local", "fedproto", "lg_fedavg", "fedper"):
        assert asks(name, stateful=False)[0], name
    assert asks("fedavg")[0]
    assert asks("fedavg", stateful=False, opt=clients_.keep_opt_state)[0]


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
        assert participation.row_count(most) <= max(most * 1.13, most + 1)
    assert participation.max_clients(lambda key, n, r: there(0, clients=n), 9) == 9
    assert {participation.row_count(n) for n in (97, 100, 104)} == {104}
    assert [participation.row_count(n) for n in (1, 5, 16, 17)] == [1, 5, 16, 18]
    assert np.all(np.diff([participation.row_count(n) for n in range(1, 2000)]) >= 0)


def test_the_share_is_the_same_on_host_and_device():
    for clients in (3, 20, 1000, 99_999):
        for fraction in np.linspace(0.001, 1, 29):
            share = participation.count_of_fraction(float(fraction), clients)
            assert participation.max_of_fraction(float(fraction))(clients) == int(share)


@pytest.mark.parametrize(
    ("name", "share"), [("fedavg", 1.0), ("protonorm", 0.4), ("refprotofl", 0.4)]
)
@pytest.mark.long
def test_lanes_change_no_number_of_a_client(tmp_path, monkeypatch, name, share):
    """Nor one of the server, but where it adds uploads up: to rounding."""
    told = {}
    for cores in (1, 3):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        law = "uniform" if share < 1 else "all"
        fields = {"participation__law": law, "participation__fraction": share}
        c = small(name, data__clients=8, eval_every=1, **fields)
        assert {g.num_lanes for g in build.experiment(c, "cpu").cohorts} == {cores}
        runs.run(c, tmp_path / str(cores))
        told[cores] = runs.records(tmp_path / str(cores))
    for one, several in zip(told[1], told[3], strict=True):
        assert one["rules"] == several["rules"]
        assert one["loss"] == pytest.approx(several["loss"], rel=1e-5)
        assert one["bytes_by_client"] == several["bytes_by_client"]
