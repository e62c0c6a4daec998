"""Every picture of a finished run, into `plots/`."""

import jax
import numpy as np

from jaxproto import batches, federation, metrics, plots
from jaxproto.types import Data, Protos

SPIRAL_CLIENTS = (2, 5)  # N Figure 2 (e), (f)


def draw(setup, state):
    """Draws what the run has: partition, accuracy, angles, and planes for 2-d features.

    Without matplotlib it says how to get it and draws nothing.
    """
    if not plots.available():
        setup.console.print(f"no pictures: {plots.HINT}")
        return
    folder = setup.path / "plots"
    folder.mkdir(exist_ok=True)
    records = metrics.read(setup.path / "metrics.jsonl")
    plots.partition_heatmap(folder / "partition.png", setup.exp.counts.train)
    plots.accuracy_over_rounds(folder / "accuracy.png", records)
    protos = setup.exp.method.broadcast(state.server)
    if isinstance(protos, Protos):
        mean_CD, count_C = np.asarray(protos.mean), np.asarray(protos.count)
        plots.prototype_angles(folder / "angles.png", mean_CD, count_C)
        if setup.exp.spec.feat_dim == 2:
            upscale = setup.config.method.get("upscale", 1.0)
            _planes(setup, state, mean_CD * upscale, folder)


def _planes(setup, state, global_CD, folder):
    """`global_CD` as clients are pulled to it: scaled."""
    exp = setup.exp
    local = federation.by_id(exp.cohorts, [c.memory for c in state.clients])
    mean_KCD, count_KC = np.asarray(local.mean), np.asarray(local.count)
    plots.prototypes_2d(folder / "prototypes.png", global_CD, mean_KCD, count_KC)
    for cohort, clients, shards in zip(
        exp.cohorts, state.clients, exp.test, strict=True
    ):
        for k, i in enumerate(cohort.ids):
            if i in SPIRAL_CLIENTS:
                client, shard = jax.tree.map(lambda a, k=k: a[k], (clients, shards))
                feat_MD, y_M = features(cohort.net, client, Data(setup.pool, shard))
                plots.features_2d(
                    folder / f"features_client{i}.png",
                    feat_MD,
                    y_M,
                    mean_KCD[i],
                    count_KC[i],
                    f"client {i}, test samples and local prototypes",
                )


def features(net, client, data: Data):
    """Features [M, D] and labels [M] of all examples of one client."""
    size = int(data.shard.size)
    batch = batches.take(data, np.arange(size), np.ones(size))
    out = net.apply(client.params["net"], client.norm["net"], batch.x, False)
    return np.asarray(out.feat), np.asarray(batch.y)
