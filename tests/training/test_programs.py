"""A round of the compiled programs depends on the seed and the number of the round."""

import jax
import numpy as np
from support import attacked

from jaxproto.experiment import build
from jaxproto.training import client_store, compiler, programs, rounds


def test_seed_and_round_decide_the_order_of_batches(tmp_path):
    c = attacked.small("fedproto", attacked.data(tmp_path / "toy.npz"))
    exp = build.experiment(c, "cpu")
    examples = build.examples(exp.dataset)
    compiled, _ = compiler.compile_all(exp, examples)
    bound = programs.with_floats(compiled, exp.floats)
    store = client_store.DeviceStore(exp, bound)

    def after_a_round(seed, r):
        """Parameters of the clients, which begin as those of seed 0."""
        state = programs.init(exp, 0, bound)
        work = rounds.RoundEnvironment(exp, examples, bound, seed, store)
        end, _ = rounds.next_state(work, r, state)
        leaves = jax.tree.leaves([c.params for c in end.clients])
        return np.concatenate([np.ravel(a) for a in leaves])

    one = after_a_round(0, 0)
    assert np.array_equal(one, after_a_round(0, 0))
    for other in after_a_round(5, 0), after_a_round(0, 1):
        assert not np.array_equal(one, other)
