"""Leakage of an uploaded prototype: inversion, and membership of examples.

    python -m benchmarks.inversion

One client trains on the digits with FedProto, with m examples of each class, and
uploads the mean feature of each class. The attacker has the upload and a body: the
client's own, as the server has if bodies are shared, or one that was trained on other
examples from another start. The attacks are those of `jaxproto.attacks.leakage`,
without total variation:

- Inversion, from grey or from the mean of public images of the class. The result is the
  correlation over pixels with the mean of the client's images of that class. The table
  also has the correlation of the public mean itself, which needs no upload.
- Membership. The result is the area under the ROC curve, for members against as many
  examples of each class that were not trained on (0.5 is guessing).
"""

import sys
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import measure
from jaxproto import config, wire
from jaxproto.attacks.leakage import membership, prototype_inversion, scores
from jaxproto.attacks.leakage.next_upload import Embedding
from jaxproto.attacks.leakage.prototype_inversion import PrototypeTarget
from jaxproto.core import batches
from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import own_features
from jaxproto.core.types import Client, Net, Shard
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.round import federation, participation
from jaxproto.round.federation import Cohort, RoundInputs

FLAGS = measure.flag_values(
    behind=(["1", "2", "5", "20"], "m, examples per class"),
    net=("mlp", "network of the client"),
    rounds=(10, "rounds of the client"),
    steps=(300, "gradient steps on an image"),
    seeds=(3, "clients, each with other data"),
)
PUBLIC = 40  # examples per class of the attacker, and of the other body


class Trained(NamedTuple):
    """A client after its rounds, and its upload."""

    client: Client
    mean_CD: np.ndarray


def experiment(net: str) -> Experiment:
    """Builds the digits with one network; `split` chooses the examples."""
    c = config.experiment("fedproto", "digits")
    c.model.group, c.data.clients = net, 3
    return build.experiment(c, "cpu")


def split(y: np.ndarray, seed: int, m: int):
    """Draws rows per class [C, ...]: members, non-members, public, other body's."""
    rng = np.random.default_rng(seed)
    by_class = [rng.permutation(np.flatnonzero(y == c)) for c in range(10)]
    ends = np.cumsum([m, m, PUBLIC, PUBLIC])
    return np.split(np.stack([rows[: ends[-1]] for rows in by_class]), ends[:-1], 1)


def train(exp: Experiment, rows: np.ndarray, seed: int, rounds: int) -> Trained:
    """Trains one client with FedProto, through the functions that a run uses."""
    cohort = Cohort("one", exp.cohorts[0].net, (0,))
    key, examples = make_key(seed), build.examples(exp.dataset)
    table = jnp.asarray(rows.reshape(1, -1), jnp.int32)
    shard = Shard(table, jnp.asarray([rows.size], jnp.int32))
    count = jnp.full((1, 10), rows.shape[1], jnp.float32)
    everyone = participation.Participation(*[jnp.ones(1, bool)] * 2)

    @jax.jit
    def one_round(server, clients, key):
        down = federation.broadcast(exp.method, server, exp.formats).message
        inputs = RoundInputs(exp.method, exp.local, exp.formats, everyone, down, key)
        clients, uploads, _ = federation.train_cohort(
            inputs, cohort, clients, examples, shard
        )
        server = exp.method.update(cohort.net, server, wire.unpack(uploads.up), key)
        return server, clients, wire.unpack(uploads.up).mean[0]

    clients = federation.init_cohort(exp.method, exp.local, cohort, key, count)
    server, mean_CD = exp.method.init_server(cohort.net, key), None
    for r in range(rounds):
        server, clients, mean_CD = one_round(
            server, clients, jax.random.fold_in(key, r)
        )
    return Trained(jax.tree.map(lambda a: a[0], clients), np.asarray(mean_CD))


def invert(
    net: Net, body: Client, goal: PrototypeTarget, start: np.ndarray, steps: int
) -> np.ndarray:
    """Optimises images [C, ...] until their features are near the prototypes."""
    embedding = Embedding(own_features, net)
    images, _ = prototype_inversion.optimise_images(
        embedding, body, goal.mean, goal.mask, start, steps=steps, tv=0.0
    )
    return np.asarray(images)


def auc(net: Net, body: Client, goal: PrototypeTarget, members, others) -> float:
    """Returns the AUC of membership, for images [C, m, ...] by class."""
    embedding = Embedding(own_features, net)
    y = np.repeat(np.arange(10), members.shape[1])
    both = (x.reshape(-1, *x.shape[2:]) for x in (members, others))
    return scores.auc(
        *(membership.prototype_distance(embedding, body, goal, (x, y)) for x in both)
    )


def correlation(images: np.ndarray, true: np.ndarray) -> float:
    """Returns the correlation over pixels, averaged over images."""
    pairs = zip(
        images.reshape(len(images), -1), true.reshape(len(true), -1), strict=True
    )
    return float(np.mean([np.corrcoef(*pair)[0, 1] for pair in pairs]))


def one(exp: Experiment, m: int, seed: int, settings: dict) -> dict:
    """Attacks one client with m examples of each class."""
    own, held_out, public, other = split(exp.dataset.y, seed, m)
    trained, net = partial(train, exp, rounds=settings["rounds"]), exp.cohorts[0].net
    bodies = {"own": trained(own, seed), "other": trained(other, 1000 + seed)}
    mean_CD = bodies["own"].mean_CD
    goal = PrototypeTarget(
        mean_CD, np.ones(10, bool), np.ones(mean_CD.shape, bool), False
    )
    images = {
        k: np.asarray(batches.normalise_inputs(jnp.asarray(exp.dataset.x[v])))
        for k, v in (("own", own), ("held out", held_out), ("public", public))
    }
    target, known = images["own"].mean(1), images["public"].mean(1)
    starts = {"grey": np.zeros_like(known), "public": known}
    row = {"m": m, "seed": seed}
    row["public mean"] = correlation(known, target)
    for name, (body, _) in bodies.items():
        for start, x in starts.items():
            found = invert(net, body, goal, x, settings["steps"])
            row[f"{name}, {start}"] = correlation(found, target)
        row[f"{name}, AUC"] = auc(net, body, goal, images["own"], images["held out"])
    return row


def main(argv):
    """Attacks clients with every number of examples."""
    settings = measure.parse(FLAGS, argv, __doc__)
    exp = experiment(settings["net"])
    rows = [
        one(exp, m, seed, settings)
        for m in measure.whole(settings["behind"])
        for seed in range(settings["seeds"])
    ]
    names = [name for name in rows[0] if name not in ("m", "seed")]
    cells = []
    for m in measure.whole(settings["behind"]):
        values = [[r[name] for name in names] for r in rows if r["m"] == m]
        spread = zip(np.mean(values, 0), np.std(values, 0), strict=True)
        cells.append((m, *(f"{a:.3f} ± {s:.3f}" for a, s in spread)))
    title = f"Leakage of a prototype, {settings['seeds']} clients"
    measure.finish(
        "inversion", settings, rows, [measure.table(title, ("m", *names), cells)]
    )


if __name__ == "__main__":
    main(sys.argv)
