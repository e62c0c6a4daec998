"""Clients of a saved run: their networks, data and predictions."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import numpy as np
import pandas as pd

from jaxproto import wire
from jaxproto.core import batches, jax_settings
from jaxproto.core.method import Method
from jaxproto.core.types import Client, Net, Tree, describe
from jaxproto.data.dataset import Dataset
from jaxproto.errors import UserError, choose_from
from jaxproto.lab.saved_runs import user_inputs
from jaxproto.summary import host_prototypes
from jaxproto.summary.host_prototypes import HostProtos


class ExampleSet(NamedTuple):
    """Training or test examples of a client, as the data set stores them."""

    x: np.ndarray  # [M, ...]
    y: np.ndarray  # [M] int32

    def __repr__(self) -> str:
        """Returns the shapes."""
        return f"ExampleSet(x={describe(self.x)}, y={describe(self.y)})"


class ClientData(NamedTuple):
    """The examples of a client."""

    train: ExampleSet
    test: ExampleSet


class CompiledClient(NamedTuple):
    """Functions of the clients of an architecture, compiled at their first call."""

    method: Method
    net: Net
    name: str  # of the architecture
    dataset: Dataset  # of the run
    scores: Callable  # client, down, x_B -> {rule: scores_BC}
    features: Callable  # client, x_B -> feat_BD
    again: Callable[[], "CompiledClient"] | None = None  # makes them where unpickled

    def __reduce__(self):
        return self.again, ()


def compile_client(
    method: Method, net: Net, name: str, dataset: Dataset
) -> CompiledClient:
    """Returns the functions of one architecture."""

    def scores(client, down, x):
        own = wire.for_client(down, client.id)
        return method.predict(net, client, batches.normalise_inputs(x), own)

    def features(client, x):
        return method.features(net, client, batches.normalise_inputs(x))

    return CompiledClient(
        method, net, name, dataset, jax.jit(scores), jax.jit(features)
    )


class SavedClient:
    """A client after the last checkpoint of a run, or one that joined it later.

    Attributes:
      id: id of the client, unique over all cohorts.
      architecture: name of its network.
      params: parameters, a pytree of numpy arrays. `params["net"]` is its network;
        other entries depend on the method. If clients keep no state
        (`clients.store=none`), the parameters with which it would begin the next round.
      norm: BatchNorm statistics, in the same form.
      state: all that the client keeps (`types.Client`), as numpy arrays.
      joined: accuracies before and after, for a client that joined later; else None.
    """

    def __init__(
        self,
        compiled: CompiledClient,
        state: Client,
        down: Tree,
        data: Callable[[], ClientData],
    ):
        """Keeps the state, the broadcast and a function that returns the examples."""
        self.state: Client = jax.tree.map(np.asarray, state)
        self.id = int(self.state.id)
        self.architecture = compiled.name
        self.joined: pd.DataFrame | None = None
        self._compiled, self._down, self._data = compiled, down, data

    @property
    def params(self) -> Tree:
        """Its parameters."""
        return self.state.params

    @property
    def norm(self) -> Tree:
        """Its BatchNorm statistics."""
        return self.state.norm

    @property
    def prototypes(self) -> HostProtos | None:
        """The local prototypes that it remembers; None where a method has none."""
        return host_prototypes.on_host(self.state.memory)

    @property
    def data(self) -> ClientData:
        """Its examples, `data.train.x`, `data.test.y` and so on."""
        return self._data()

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the prediction rules."""
        compiled, dataset = self._compiled, self._compiled.dataset
        like = jax.ShapeDtypeStruct((1, *dataset.x.shape[1:]), dataset.x.dtype)
        return tuple(jax.eval_shape(compiled.scores, self.state, self._down, like))

    def scores(self, x, rule: str = "head") -> np.ndarray:
        """Returns scores [M, C]: logits, or negative distances to prototypes.

        Args:
          x: [M, ...] as the data set of the run stores examples: images as uint8 from 0
            to 255, numbers as they are, texts as tokens or as texts. They are
            normalised as in training.
          rule: prediction rule, one of `rules`.

        Raises:
          UserError: there is no such rule, or the inputs do not fit the data set.
        """
        choose_from("rule", rule, self.rules)
        x = user_inputs.to_dataset_inputs(self._compiled.dataset, x)
        return self._scores(x)[rule]

    def predict(self, x, rule: str = "head") -> np.ndarray:
        """Returns classes [M] of examples; -1 where the rule predicts no class.

        `x` and `rule` are as for `scores`.
        """
        return best_class(self.scores(x, rule))

    def features(self, x) -> np.ndarray:
        """Returns features [M, D] of examples, in the space of prototypes.

        With RefProtoFL they are the output of its adapter.
        """
        x = user_inputs.to_dataset_inputs(self._compiled.dataset, x)
        client = jax.device_put(self.state)
        return map_in_batches(partial(self._compiled.features, client), x)

    def confusion(self, rule: str = "head", part: str = "test") -> np.ndarray:
        """Returns the confusion matrix [C, C]: true class (row) by prediction (column).

        Examples for which the rule predicts no class are in no column.

        Args:
          rule: as for `scores`.
          part: part of its data, test or train.
        """
        x, y = self._part(part)
        predicted, size = self.predict(x, rule), self._compiled.dataset.num_classes
        count_CC = np.zeros((size, size), np.int64)
        np.add.at(count_CC, (y[predicted >= 0], predicted[predicted >= 0]), 1)
        return count_CC

    def accuracies(self, part: str = "test") -> dict[str, float]:
        """Returns the accuracy of every rule on its own data, "test" or "train"."""
        x, y = self._part(part)
        scores = self._scores(user_inputs.to_dataset_inputs(self._compiled.dataset, x))
        return {rule: float(np.mean(best_class(s) == y)) for rule, s in scores.items()}

    def _part(self, name: str) -> ExampleSet:
        return getattr(self.data, choose_from("part", name, ClientData._fields))

    def _scores(self, x: np.ndarray) -> dict[str, np.ndarray]:
        client, down = jax.device_put(self.state), self._down
        return map_in_batches(lambda x_B: self._compiled.scores(client, down, x_B), x)

    def __repr__(self) -> str:
        return f"<client {self.id}, {self.architecture}>"


def best_class(scores_MC: np.ndarray) -> np.ndarray:
    """Returns the class with the highest score; -1 where that score is not finite."""
    known_M = np.isfinite(np.max(scores_MC, -1))
    return np.where(known_M, np.argmax(scores_MC, -1), -1)


def map_in_batches(f: Callable, x: np.ndarray) -> Tree:
    """Applies `f` to all examples in batches of one size, so it compiles once."""
    jax_settings.check()
    size, parts = batches.EVAL_BATCH_SIZE, []
    for first in range(0, len(x), size):
        rows = x[first : first + size]
        batch = np.zeros((size, *x.shape[1:]), x.dtype)
        batch[: len(rows)] = rows
        parts.append(jax.device_get(f(batch)))
    return jax.tree.map(lambda *a: np.concatenate(a)[: len(x)], *parts)


def check_id(i: int, clients: int):
    """Raises UserError unless `i` is an id from 0 to `clients` - 1."""
    if isinstance(i, bool) or not isinstance(i, int | np.integer):
        raise UserError(f"clients are called by their numbers, not by {i!r}.")
    if not 0 <= i < clients:
        raise UserError(
            f"there is no client {i}: the run has clients 0 to {clients - 1}."
        )
