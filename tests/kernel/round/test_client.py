"""Local training of one client: which examples each step sees, and what it leaves."""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from support.every import every

from jaxproto.core import batches
from jaxproto.core.method import Method
from jaxproto.core.types import Data, Examples, LossAux, Net, NetOutput, Shard, Spec
from jaxproto.methods import METHODS
from jaxproto.round import client
from jaxproto.round.client import LocalTraining

N, C = 40, 3  # examples of the pool, classes
SPEC = Spec(C, 4)
EPOCHS = 3


def linear() -> Net:
    """Features as they come, logits linear in them, no normalisation."""

    def init(key):
        kernel = jax.random.normal(key, (SPEC.feat_dim, C))
        return {"body": {}, "head": {"kernel": kernel}}, {}

    def apply(params, norm, x, train, key=None):
        return NetOutput(x, head(params["head"], x), norm)

    def head(params, feat):
        return feat @ params["kernel"]

    return Net(init, apply, head)


NET = linear()
RNG = np.random.default_rng(0)
POOL = Examples(
    jnp.asarray(RNG.normal(size=(N, SPEC.feat_dim)), jnp.float32),
    jnp.asarray(RNG.integers(0, C, N), jnp.int32),
)


def data(size):
    """One client with `size` rows of the pool in an order of their own."""
    rows = np.zeros(20, np.int32)
    rows[:size] = (7 + 3 * np.arange(size)) % N
    return Data(POOL, Shard(jnp.asarray(rows), jnp.int32(size)))


def made_of(loss) -> Method:
    return Method(
        init_server=lambda net, key: (),
        loss=loss,
        upload=lambda net, before, after, data, down, sums: (sums, ()),
        update=lambda net, server, up, key: server,
    )


def witness(net, params, norm, batch, down, client):
    """Counts in `sums` how often each row of the pool was seen."""
    out = net.apply(params["net"], norm["net"], batch.x, True, batch.key)
    row_B = jnp.argmin(((batch.x[:, None] - POOL.x) ** 2).sum(-1), axis=1)
    seen_N = jnp.zeros(N).at[row_B].add(batch.mask)
    return 0.0 * out.logits.sum(), LossAux({"net": out.norm}, seen_N)


def descent(net, params, norm, batch, down, client):
    """|w|^2 / 2 whatever the data: the gradient is the weight itself."""
    return 0.5 * jnp.sum(params["net"]["head"]["kernel"] ** 2), LossAux(norm)


@cache
def trainer(method, options):
    """Jitted local training: key, client, data -> client, upload, loss."""

    @jax.jit
    def train(key, state, data):
        task = client.LocalTask(method, NET, options, key, (), data.examples)
        own = state, data.shard
        session = client.begin_local_training(task, *own)
        step = partial(client.local_step, task, *own)
        session = lax.fori_loop(0, client.num_steps(session), step, session)
        return client.finish_local_training(task, session, *own)

    return train


def new(method, options, id=0):
    start = jax.random.key(1), jnp.int32(id), jnp.ones(C)
    return client.init_client(method, NET, options, *start)


WITNESS, DESCENT = made_of(witness), made_of(descent)
LOCAL = METHODS["local"](SPEC)
STILL = optax.sgd(0.0)
FIXED = LocalTraining(STILL, EPOCHS, 4, batches.fixed)
SHUFFLED = LocalTraining(STILL, EPOCHS, 4, batches.shuffled)
WHOLE = batches.whole_batches_only
SKIP = LocalTraining(STILL, EPOCHS, 4, batches.fixed, WHOLE)


def seen_by(options, size):
    """Counts how often a round sees each of the client's examples, [size]."""
    one = data(size)
    train = trainer(WITNESS, options)
    state, seen_N, _ = train(jax.random.key(0), new(WITNESS, options), one)
    rows = np.asarray(one.shard.index)[:size]
    assert np.delete(np.asarray(seen_N), rows).sum() == 0  # nobody else's
    return state, np.asarray(seen_N)[rows]


@every([4, 11, 20])
def test_epochs_see_whole_batches_fixed_the_same_shuffled_no_example_twice(size):
    state, seen_M = seen_by(FIXED, size)
    whole = size // 4 * 4
    assert seen_M.tolist() == [EPOCHS] * whole + [0] * (size - whole)
    assert state.steps == EPOCHS * (size // 4)
    _, seen_M = seen_by(SHUFFLED, size)
    assert seen_M.sum() == EPOCHS * whole and seen_M.max() <= EPOCHS
    if size == whole:
        assert seen_M.tolist() == [EPOCHS] * size


def test_a_client_below_one_batch_never_trains_with_skip_or_sees_each_example_once():
    state, seen_M = seen_by(FIXED, 3)
    assert seen_M.tolist() == [EPOCHS] * 3 and state.steps == EPOCHS
    limited = batches.at_most(1, batches.at_least_one_batch)
    assert [limited(jnp.int32(n), 4) for n in (0, 3, 11)] == [0, 1, 1]
    options = LocalTraining(optax.sgd(0.1), EPOCHS, 4, batches.fixed, WHOLE)
    before = new(LOCAL, options)
    after, _, loss = trainer(LOCAL, options)(jax.random.key(0), before, data(3))
    assert loss == 0 and after.steps == 0
    jax.tree.map(np.testing.assert_array_equal, before, after)


@every([(FIXED, n) for n in (1, 3, 4, 11)] + [(SKIP, n) for n in (4, 11)])
def test_the_loss_is_the_mean_over_the_whole_batches_or_the_own_examples(options, size):
    start = new(LOCAL, options)
    _, _, loss = trainer(LOCAL, options)(jax.random.key(0), start, data(size))
    kernel = np.asarray(start.params["net"]["head"]["kernel"], np.float64)
    rows = np.asarray(data(size).shard.index)[: size // 4 * 4 or size]
    logits = np.asarray(POOL.x)[rows] @ kernel
    own = np.take_along_axis(logits, np.asarray(POOL.y)[rows, None], 1)[:, 0]
    want = np.mean(np.log(np.exp(logits).sum(1)) - own)
    assert loss == pytest.approx(want, rel=1e-6)


def test_examples_in_rows_make_the_batches_of_images():
    x = jnp.asarray(np.arange(N * 12).reshape(N, 2, 3, 2) % 251, jnp.uint8)
    rows = Examples(x.reshape(N, -1), POOL.y, shape=x.shape[1:])
    given = data(5).shard, jnp.arange(4), jnp.ones(4)

    def take(examples, shard, *at):
        return batches.gather_examples(Data(examples, shard), *at)

    images = jax.jit(take)(Examples(x, POOL.y), *given)
    jax.tree.map(np.testing.assert_array_equal, images, jax.jit(take)(rows, *given))
    assert images.x.shape == (4, 2, 3, 2)


RESET, KEEP = client.reset_opt_state, client.keep_opt_state


@every([(RESET, None), (KEEP, None), (RESET, 0.5)])
def test_momentum_restarts_or_is_kept_and_a_schedule_lowers_the_rate(begin, decay):
    """v <- m v + w, w <- w - eta f(r) v; PyTorch's schedulers change eta so, too."""
    sgd, schedule = optax.sgd(0.1, momentum=0.9), lambda r: (decay or 1.0) ** r
    options = LocalTraining(sgd, EPOCHS, 4, init_opt_state=begin, schedule=schedule)
    state = new(DESCENT, options)
    w = np.asarray(state.params["net"]["head"]["kernel"], np.float64)
    v = 0.0
    for r in range(3):
        train = trainer(DESCENT, options.at_round(r))
        state, _, loss = train(jax.random.key(r), state, data(4))
        v, losses = (v if begin is KEEP else 0.0), []
        for _ in range(EPOCHS):
            losses.append(0.5 * np.sum(w**2))
            v = 0.9 * v + w
            w = w - 0.1 * (decay or 1.0) ** r * v
        assert np.allclose(state.params["net"]["head"]["kernel"], w, atol=1e-6)
        assert loss == pytest.approx(np.mean(losses), rel=1e-5)


def test_the_order_of_examples_and_the_start_depend_on_round_key_and_id_alone():
    def order(round_key, id):
        key, one = jax.random.key(round_key), data(20)
        task = client.LocalTask(WITNESS, NET, SHUFFLED, key, (), one.examples)
        start = new(WITNESS, SHUFFLED, id)
        session = client.begin_local_training(task, start, one.shard)
        return tuple(np.asarray(session.order).ravel())

    assert order(0, 0) == order(0, 0)
    assert len({order(0, 0), order(0, 1), order(1, 0)}) == 3
    first, second, _ = np.reshape(order(0, 0), (EPOCHS, 20))
    assert not np.array_equal(first, second)  # epochs differ
    params = (new(LOCAL, FIXED, id).params["net"] for id in (0, 0, 1))
    a, b, c = (net["head"]["kernel"] for net in params)
    assert np.array_equal(a, b) and not np.array_equal(a, c)
