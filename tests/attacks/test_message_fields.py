"""Fields of messages: their names, their sizes, and what they reveal."""

from functools import partial

import jax
import numpy as np
import pytest
from support import toys
from support.averaging import FRAME, averaging
from support.toy_methods import COUNTED, every_method, make
from support.wire_messages import every_kind

from jaxproto import wire
from jaxproto.attacks import message_fields
from jaxproto.methods.fedproto import fedproto
from jaxproto.prototypes import kernels


def test_fields_of_a_message_are_listed_with_what_they_reveal():
    """Counts only if they are disclosed, as for the weighted mean of prototypes."""
    packed = jax.eval_shape(partial(wire.pack, form="int8"), every_kind())
    found = {f.name: f for f in message_fields.fields("up", packed)}
    assert found["hidden.mean"][2:] == ((4, 7), "int8", 28, "class means")
    assert found["hidden.mean.scale"][2:] == ((4,), "float32", 16, "class means")
    assert found["hidden.presence"][2:] == ((4,), "bit", 1, "class presence")
    assert "hidden.count" not in found
    assert found["shown.count"][2:] == ((4,), "int32", 16, "class counts")
    assert found["top.which"][2:] == ((28,), "bits or indices", 4, "chosen entries")
    method = fedproto(toys.SPEC, aggregate=kernels.mean_over_examples)
    weighted = message_fields.message_fields(method, toys.net(16), toys.SPEC)
    assert [f.name for f in weighted if f.reveals == message_fields.COUNTS] == ["count"]


@every_method
def test_counts_are_disclosed_only_where_the_server_needs_them(name):
    """RefProtoFL weights classes without public examples by |D_kc| (Eq. 15).

    FedNH weights directions by n_ik, FedHP and FedPAC prototypes by n_ij.
    """
    like = (wire.EXACT, (), np.zeros(toys.INPUT, np.float32))
    fields = message_fields.message_fields(make(name), toys.net(16), toys.SPEC, *like)
    counts = [(f.way, f.name) for f in fields if f.reveals == message_fields.COUNTS]
    assert counts == [COUNTED.get(name)] * (name in COUNTED)
    assert not any(f.shape == (16,) for f in fields)  # of statistics
    shared = make(name).homogeneous
    assert shared or not any(16 in f.shape for f in fields)  # of backbones


@pytest.mark.parametrize("name", FRAME)
def test_what_leaves_the_client_is_named(name):
    like, net = np.zeros(toys.INPUT, np.float32), toys.net(8)
    found = message_fields.message_fields(averaging(name), net, toys.SPEC, like=like)
    seen = {(f.way, f.name) for f in found if f.reveals == message_fields.FEATURES}
    both = ("norm.net.mean", "norm.net.var")
    assert seen == {(way, name) for way in ("up", "down") for name in both}
