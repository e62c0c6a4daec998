"""Results of programs as plain data, and back."""

import json
from collections import OrderedDict

import jax
import optax
import pytest

from jaxproto.training import exported_program
from jaxproto.types import Protos, Statistics


def results():
    """Every kind of node that results have."""
    protos = Protos(0, 1, disclosed=True)
    moments = optax.ScaleByAdamState(count=2, mu={"a": 3}, nu=[4, (5,)])
    return protos, moments, Statistics({"b": 6}), optax.EmptyState(), None


def test_a_tree_of_results_is_rebuilt_from_plain_data():
    plain = json.loads(json.dumps(exported_program.to_plain_data(results())))
    assert jax.tree.structure(
        exported_program.from_plain_data(plain)
    ) == jax.tree.structure(results())
    assert exported_program.from_plain_data(plain) == results()


@pytest.mark.parametrize(
    "node", [OrderedDict(a=0), {1: 0}, Protos(0, 1, disclosed=object())]
)
def test_a_tree_that_cannot_be_written_as_plain_data_is_refused(node):
    with pytest.raises(TypeError):
        exported_program.to_plain_data(node)


def test_fields_that_a_type_does_not_have_are_refused():
    plain = exported_program.to_plain_data(Protos(0, 1))
    for other in ({"fields": {"mean": 0}}, {"static": {"count": 1}}):
        with pytest.raises(TypeError, match="other fields"):
            exported_program.from_plain_data({**plain, **other})
