"""The calculator of costs, against what rounds measure and the nominal formulas."""

import jax
import numpy as np
import pytest
from support import toys
from support.toy_methods import BEYOND, FORMULA, SEEN, every_method, sized

import jaxproto
from jaxproto import config, wire
from jaxproto.experiment import build
from jaxproto.lab.analysis import cost
from jaxproto.summary import nominal_cost


@every_method
def test_measured_cost_is_that_of_the_calculator_and_of_the_nominal_formula(name):
    """The calculator knows class counts alone, and networks without work."""
    method, (group,) = sized(name), toys.cohorts(*toys.HOM)
    r = toys.run(method, local=SEEN.get(name, toys.LOCAL))
    count_KC = toys.counts(*toys.pool_and_rows(), group.ids)
    assert count_KC.sum(0).all()  # every class is somewhere
    down, like = method.broadcast(r.server), np.zeros(toys.INPUT, np.float32)
    found = cost.message_sizes(method, group.net, toys.SPEC, count_KC, like=like)
    scalars, size = wire.broadcast_sizes(down, wire.pack(down, "float32"))
    scalars_K = r.report.scalars + r.pre_upload.scalars
    assert found.scalars[0].tolist() == scalars_K.tolist()
    assert found.bytes[0].tolist() == (r.report.bytes + r.pre_upload.bytes).tolist()
    twice = method.two_exchanges
    assert np.array_equal(found.scalars[1], scalars)
    assert np.array_equal(found.bytes[1], size + twice * wire.HEADER)
    if method.nominal is not None:
        classes_K = (count_KC > 0).sum(1).tolist()
        paper = sized(FORMULA.get(name, name))
        formula = nominal_cost.nominal(paper, group.net, classes_K)
        message = wire.for_client(down, 0)
        both = message, jax.tree.map(lambda a: a[0], r.report.up)
        alone = sum(np.ndim(a) == 0 for a in jax.tree.leaves(both))
        measured = int(np.sum(scalars_K)) + 6 * int(wire.scalars(message))
        assert measured == formula + 6 * (alone + BEYOND.get(name, 0))


@pytest.mark.long
@pytest.mark.parametrize("anchors", ["external", "none"])
def test_public_examples_are_sent_once_to_every_client_that_uses_them(anchors):
    """Algorithm 6, line 3: pixels as bytes, labels as integers, 20 clients."""
    c = config.load("configs/refprotofl.py:digits,frozen")
    c.method.anchors, c.model.group = anchors, "mlp"
    assert (c.method.backbone, c.model.init) == ("frozen", "same")
    exp = build.experiment(c, "cpu")
    each = len(exp.dataset.public) * (8 * 8 + 4) + wire.HEADER
    assert cost.cost_of(exp).once == (anchors == "external") * 20 * each


def test_python_has_the_table_of_the_command_as_a_data_frame():
    c = config.experiment("fedproto", "digits")
    frame, view = jaxproto.cost(c), cost.view(c, every=False)
    assert frame.columns.tolist() == [*view.head]
    assert [*frame.itertuples(index=False, name=None)] == [*view.rows]
    assert frame.attrs["notes"] == view.notes
