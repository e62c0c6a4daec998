"""Copies of loaded runs and of their clients, in this process and in others."""

import copy
import pickle

import numpy as np
import pytest

import jaxproto


def pickled(value):
    return pickle.loads(pickle.dumps(value))


LONG = (pytest.param(f, marks=pytest.mark.long) for f in (copy.copy, copy.deepcopy))


@pytest.mark.parametrize("copied", (*LONG, pickled))
def test_a_copy_of_a_run_and_of_its_clients_predicts_as_they_do(copied, trained_runs):
    run = jaxproto.load(trained_runs("fedproto"))
    client = run.clients[1]
    x, y = client.data.test
    new = run.new_client(x, y, x, y, epochs=1)
    other = copied(run)
    assert repr(other) == repr(run) and other.evaluate() == run.evaluate()
    pairs = [(client, copied(client)), (new, copied(new)), (client, other.clients[1])]
    for first, second in pairs:
        np.testing.assert_array_equal(first.predict(x), second.predict(x))
        np.testing.assert_array_equal(first.data.test.x, second.data.test.x)
    np.testing.assert_equal([*copied(new).joined], [*new.joined])
