"""The wire inside the jitted round: what arrives, and how many bytes it takes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys

from jaxproto import federation, kernels, wire
from jaxproto.methods.fedproto import fedproto
from jaxproto.methods.protonorm import protonorm
from jaxproto.report import disclosure
from jaxproto.types import Protos, Top
from jaxproto.wire import Wire, codec

every_format = pytest.mark.parametrize("form", wire.FORMATS)


def message(seed=0):
    """Every kind of field; row 1 of the prototypes is absent."""
    rng = np.random.default_rng(seed)
    mean = jnp.asarray(rng.normal(size=(4, 7)), jnp.float32)
    count = jnp.asarray([2.0, 0.0, 1.0, 5.0])
    return {
        "hidden": Protos(mean, jnp.sign(count)),
        "shown": Protos(mean * 1e3, count, True),
        "top": Top(mean.ravel(), jnp.arange(28) % 5 == 0),
        "array": mean * 1e-3,
        "scalar": mean[0, 0],
        "bits": mean > 0,
        "number": jnp.arange(3),
    }


def same_bits(a, b) -> bool:
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in leaves)


@every_format
def test_rounding_in_the_round_is_that_of_the_bytes_bit_for_bit(form):
    """What `roundtrip` gives is what packing, encoding, decoding, unpacking gives."""

    @jax.jit
    def inside(sent):
        packed = wire.pack(sent, form)
        return wire.roundtrip(sent, form), packed, wire.size(packed)

    arrived, packed, size = jax.device_get(inside(message()))
    data = codec.encode(packed, form)
    assert len(data) == size
    like = jax.eval_shape(partial(wire.pack, form=form), message())
    decoded = codec.decode(data, like, form)
    assert same_bits(arrived, jax.jit(wire.unpack)(decoded))
    assert jax.tree.structure(arrived) == jax.tree.structure(message())


@every_format
def test_stacked_messages_are_packed_and_unpacked_as_one_by_one(form):
    each = [message(0), message(1)]
    stacked = jax.tree.map(lambda *a: jnp.stack(a), *each)
    pack = partial(wire.pack, form=form)
    packed = jax.jit(jax.vmap(pack))(stacked)
    together, one_by_one = jax.jit(wire.unpack)(packed), jax.jit(pack)
    for k, one in enumerate(each):
        alone = one_by_one(one)
        assert same_bits(jax.tree.map(lambda a, k=k: a[k], packed), alone)
        assert same_bits(
            jax.tree.map(lambda a, k=k: a[k], together), wire.unpack(alone)
        )


def test_float32_changes_nothing_but_what_is_absent():
    sent = message()
    got = wire.roundtrip(sent, "float32")
    assert np.all(np.asarray(got["hidden"].mean[1]) == 0)
    sent["hidden"] = sent["hidden"].replace(mean=got["hidden"].mean)
    sent["shown"] = sent["shown"].replace(mean=got["shown"].mean)
    sent["top"] = sent["top"].replace(value=sent["top"].value * sent["top"].sent)
    assert same_bits(got, sent)


def test_int8_is_off_by_half_a_step_at_most_and_keeps_the_largest():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(6, 50)), jnp.float32)
    got = wire.roundtrip(x, "int8")
    most = jnp.max(jnp.abs(x), 1, keepdims=True)
    assert np.all(np.abs(got - x) <= most / 127 / 2 * 1.0001)
    at = jnp.argmax(jnp.abs(x), 1)[:, None]
    kept, sent = (jnp.take_along_axis(a, at, 1) for a in (got, x))
    np.testing.assert_allclose(kept, sent, rtol=1e-6)
    assert np.any(got != x)


def test_int8_rows_without_size_arrive_as_zeros():
    x = jnp.asarray([[0.0, 0.0], [1e-38, -1e-38], [3e-35, 0.0]])
    got = wire.roundtrip(x, "int8")
    assert np.all(np.asarray(got[:2]) == 0)
    np.testing.assert_allclose(got[2], x[2], rtol=1e-6)


@every_format
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_does_not_arrive_as_one(form, bad):
    got = jax.jit(partial(wire.roundtrip, form=form))(jnp.asarray([1.0, bad, -2.0]))
    assert not np.all(np.isfinite(got))


def test_a_value_beyond_float16_is_noticed():
    assert np.isinf(wire.roundtrip(jnp.asarray([1e5]), "float16"))[0]


def test_counts_are_sent_only_if_disclosed():
    protos = Protos(jnp.ones((3, 2)), jnp.asarray([0.0, 4.0, 9.0]))
    hidden = wire.pack(protos, "float32")
    shown = wire.pack(protos.replace(disclosed=True), "float32")
    assert hidden.count.dtype == bool
    assert wire.unpack(hidden).count.tolist() == [0, 1, 1]
    assert wire.unpack(shown).count.tolist() == [0, 4, 9]
    assert int(wire.size(shown)) - int(wire.size(hidden)) == 2 * 4


@pytest.mark.parametrize(
    ("n", "width"), [(1, 1), (256, 1), (257, 2), (65536, 2), (65537, 3), (2**24, 3)]
)
def test_indices_have_as_many_bytes_as_the_largest_needs(n, width):
    assert wire.index_bytes(n) == width
    assert len((n - 1).to_bytes(width, "little")) == width


@pytest.mark.parametrize(
    ("sent", "bytes_of_which"), [(0, 0), (5, 10), (62, 124), (63, 125), (1000, 125)]
)
def test_few_entries_are_named_by_index_and_many_by_a_bitmap(sent, bytes_of_which):
    top = wire.pack(Top(jnp.ones(1000), jnp.arange(1000) < sent), "float16")
    assert int(wire.size(top)) == 12 + 4 + bytes_of_which + 2 * sent
    assert len(codec.encode(jax.device_get(top), "float16")) == int(wire.size(top))


@pytest.fixture(scope="module")
def one_round():
    """A round of FedProto with int8 up and float16 down, and the state before it."""
    method, (group,) = fedproto(toys.SPEC), toys.cohorts(*toys.HOM)
    examples, rows = toys.pool_and_rows()
    shards, key = toys.shard(rows, group.ids), jax.random.key(3)

    @jax.jit
    def run(server, clients):
        participants = toys.EVERYONE(key, 6, 0)
        formats = Wire("int8", "float16")
        down = federation.broadcast(method, server, formats).message
        given = (method, toys.LOCAL, formats, participants, down, key)
        exchange = federation.Exchange(*given)
        return federation.train_cohort(exchange, group, clients, examples, shards)

    start = toys.starter(method, toys.HOM, toys.LOCAL)
    server, (clients,) = start(key, [toys.counts(examples, rows, group.ids)])
    proto = jax.random.normal(key, server.protos.mean.shape)
    server = server._replace(protos=Protos(proto, jnp.ones(len(proto))))
    return run, server, clients


def test_clients_train_with_the_rounded_broadcast(one_round):
    run, server, clients = one_round
    rounded = wire.roundtrip(server, "float16")
    further = jax.tree.map(lambda a: a * 1.01, server)
    a, b, c = (run(s, clients)[0].params for s in (server, rounded, further))
    assert toys.gap(server, rounded) > 0
    assert toys.gap(a, b) == 0 and toys.gap(a, c) > 1e-6


def test_a_round_counts_the_real_bytes_of_its_uploads(one_round):
    run, *state = one_round
    report = jax.device_get(run(*state)[1])
    for k, size in enumerate(report.bytes):
        one = jax.tree.map(lambda a, k=k: a[k], report.up)
        assert len(codec.encode(one, "int8")) == size
        codec.check(one, int(size), "int8")
    rows = report.up.count.sum(1)
    assert report.bytes.tolist() == (12 + 1 + rows * (8 + 4)).tolist()


def fields(method, formats=wire.EXACT):
    return disclosure.message_fields(method, toys.net(16), toys.SPEC, formats)


def test_every_field_of_a_message_is_listed_with_its_bytes():
    """ProtoNorm with 5 classes and 8 dimensions, int8 up."""
    assert fields(protonorm(toys.SPEC), Wire("int8", "float32")) == [
        ("up", "presence", (5,), "bit", 1, "class presence"),
        ("up", "mean.scale", (5,), "float32", 20, "class means"),
        ("up", "mean", (5, 8), "int8", 40, "class means"),
        ("down", "presence", (5,), "bit", 1, "class presence"),
        ("down", "mean", (5, 8), "float32", 160, "class means"),
    ]


def test_top_arrays_bits_and_numbers_are_listed():
    packed = jax.eval_shape(partial(wire.pack, form="float16"), message())
    listed = [
        (f.name, f.shape, f.type, f.bytes, f.reveals)
        for f in disclosure.fields("up", packed)
    ]
    assert listed == [
        ("array", (4, 7), "float16", 56, "trained values"),
        ("bits", (4, 7), "bit", 4, "bits"),
        ("hidden.presence", (4,), "bit", 1, "class presence"),
        ("hidden.mean", (4, 7), "float16", 56, "class means"),
        ("number", (3,), "int32", 12, "whole numbers"),
        ("scalar", (), "float16", 2, "trained values"),
        ("shown.presence", (4,), "bit", 1, "class presence"),
        ("shown.count", (4,), "int32", 16, "class counts"),
        ("shown.mean", (4, 7), "float16", 56, "class means"),
        ("top.entries", (), "uint32", 4, "chosen entries"),
        ("top.which", (28,), "bits or indices", 4, "chosen entries"),
        ("top.value", (28,), "float16", 56, "trained values"),
    ]  # fmt: skip


def test_the_weighted_mean_discloses_counts_and_the_plain_one_does_not():
    weighted = fedproto(toys.SPEC, aggregate=kernels.mean_over_examples)
    for method, counts in ((weighted, ["count"]), (fedproto(toys.SPEC), [])):
        revealing = [f.name for f in fields(method) if f.reveals == disclosure.COUNTS]
        assert revealing == counts
