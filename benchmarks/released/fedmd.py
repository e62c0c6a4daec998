"""Released code of FedMD's authors as the other side, in TensorFlow.

https://github.com/diogenes0319/FedMD_clean. Its class is given networks and data, and
runs its rounds without the training before them. It takes batches in the order of the
data, and plain SGD in place of Adam.
"""

import importlib
import math
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.released import ours, release, workload
from benchmarks.released.ours import Start
from jaxproto.core.types import Tree

CLASSES = ("fedmd",)


def begin(source: Path):
    """Makes the code importable, without what reads files and draws public examples."""
    release.importable(source, ["data_utils"])


def rounds(row: str, start: Start) -> Iterator[list[np.ndarray]]:
    """Yields the clients' networks [P] after every round."""
    keras = importlib.import_module("tensorflow").keras
    module, fit = importlib.import_module("FedMD"), keras.Model.fit
    released = object.__new__(module.FedMD)
    parties = [party(keras, params["net"]) for params in start.clients]
    released.__dict__.update(arguments(start), collaborative_parties=parties)
    known = {"X": inputs(start.public[ours.drawn_rows()])}

    def in_order(*args, **options):
        return fit(*args, **{**options, "shuffle": False})

    with (
        mock.patch.object(module, "generate_alignment_data", lambda *_: known),
        mock.patch.object(keras.Model, "fit", in_order),
    ):
        for _ in range(workload.ROUNDS):
            released.collaborative_training()
            yield [flat(own["model_weights"]) for own in parties]


def arguments(start: Start) -> dict:
    """Returns the data of the class, and its settings for one round."""
    own = [{"X": inputs(x), "y": y} for x, y in start.train]
    share = start.options["digest_share"]
    steps = workload.EPOCHS * len(own[0]["y"]) // workload.BATCH
    return {
        "N_alignment": workload.BATCH,
        "N_logits_matching_round": round(share * steps),
        "N_parties": len(own),
        "N_private_training_round": round((1 - share) * workload.EPOCHS),
        "N_rounds": 1,
        "logits_matching_batchsize": workload.BATCH,
        "private_data": own,
        "private_test_data": own[0],
        "private_training_batchsize": workload.BATCH,
        "public_dataset": {"X": None, "y": None},
    }


def party(keras, net: Tree) -> dict:
    """Returns a client as the class keeps it, with jaxproto's weights."""
    layers, sgd = keras.layers, keras.optimizers.SGD
    each = net["body"]["fc1"], net["body"]["fc2"], net["head"]
    widths = [len(layer["bias"]) for layer in each]
    model = keras.Sequential(
        [
            layers.Input((math.prod(workload.SHAPE),)),
            layers.Dense(widths[0], "relu"),
            layers.Dense(widths[1], "relu"),
            layers.Reshape((workload.DIM, -1)),
            layers.GlobalAveragePooling1D("channels_first"),
            layers.Dense(widths[2]),
            layers.Activation("softmax"),
        ]
    )
    model.set_weights([layer[name] for layer in each for name in ("kernel", "bias")])
    model.compile(sgd(workload.RATE), "sparse_categorical_crossentropy")
    with mock.patch.object(keras.optimizers, "Adam", lambda **_: sgd(workload.RATE)):
        cut = importlib.import_module("Neural_Networks").remove_last_layer(model)
    names = "model_logits", "model_classifier", "model_weights"
    return dict(zip(names, (cut, model, model.get_weights()), strict=True))


def inputs(x: np.ndarray) -> np.ndarray:
    """Converts examples to normalised inputs [M, 64]."""
    return release.tensors(x, np.zeros(len(x)))[0].flatten(1).numpy()


def flat(weights: list[np.ndarray]) -> np.ndarray:
    """Returns all parameters [P], in the order of `ours.flat`."""
    pairs = zip(weights[::2], weights[1::2], strict=True)
    fc1, fc2, head = ({"kernel": kernel, "bias": bias} for kernel, bias in pairs)
    return ours.flat({"net": {"body": {"fc1": fc1, "fc2": fc2}, "head": head}})
