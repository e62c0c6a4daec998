"""FedJAX: its `federated_averaging` with the default backend of `for_each_client`.

    python -m benchmarks.peers.with_fedjax FILE

The clients of a round are those of the file. Images stay uint8 until the gradient.
FedJAX 0.0.17 needs `jax.tree_map`, which JAX has removed. With this name restored, it
runs on the version of JAX that jaxproto uses.
"""

import sys
import time

import fedjax
import jax

from benchmarks.peers import jax_side, shared

jax.tree_map = jax.tree.map


def main(path: str):
    """Runs all rounds."""
    fed = shared.load(path)
    data = fedjax.InMemoryFederatedData(
        {k: {"x": fed.x[rows], "y": fed.y[rows]} for k, rows in enumerate(fed.clients)}
    )
    gradient = jax.grad(jax_side.loss)
    algorithm = fedjax.algorithms.fed_avg.federated_averaging(
        lambda params, batch, rng: gradient(params, batch["x"], batch["y"]),
        fedjax.optimizers.sgd(learning_rate=fed.settings["learning_rate"]),
        fedjax.optimizers.sgd(learning_rate=1.0),
        fedjax.ShuffleRepeatBatchHParams(
            batch_size=fed.settings["batch_size"], num_epochs=1, drop_remainder=True
        ),
    )
    state = algorithm.init(jax_side.parameters(fed))
    for r, cohort in enumerate(fed.cohorts):
        start = time.perf_counter()
        keys = jax.random.split(jax.random.PRNGKey(r), len(cohort))
        ids = cohort.tolist()
        drawn = [(k, data.get_client(k), key) for k, key in zip(ids, keys, strict=True)]
        state, _ = algorithm.apply(state, drawn)
        jax.block_until_ready(state.params)
        shared.say(round=r + 1, seconds=time.perf_counter() - start)
    accuracy = jax_side.accuracy(state.params, fed)
    shared.finish(accuracy, ("fedjax", "jax", "jaxlib", "numpy"))


if __name__ == "__main__":
    main(sys.argv[1])
