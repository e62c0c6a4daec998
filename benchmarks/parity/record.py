"""Quantities that both sides record in a round, in the order in which they arise.

A record maps quantity -> place -> value. A place is a client, one of its arrays, or the
server. A missing prototype is NaN, and its score is -inf.
"""

from typing import NamedTuple

import numpy as np

Record = dict[str, dict[str, np.ndarray]]

BATCHES = "batches"  # rows of the pool [S, B], -1 where no example counts
FIRST = "loss of the first step"
STEP = "weights after a step"  # [S, ...]; sides start each from equal weights
STEPS = 10  # recorded first steps, at most
WEIGHTS = "weights after training"
STEP_STATISTICS = "statistics after a step"  # of BatchNorm, not in weights
STATISTICS = "statistics after training"
LOSS = "loss of the round"  # mean over the steps, then over the clients
ANCHORS = "anchors"  # of RefProtoFL, before training
LOCAL = "local prototypes"
MEAN = "mean prototypes"  # of all clients, before the alignment
ITERATIONS = "iterations of the alignment"
GENERATOR = "generator"  # of FedTGP, after the server's training
ADAPTER = "adapter"  # of RefProtoFL, on the server
GLOBAL = "global prototypes"  # after the alignment; sparse ones with all coordinates
RULES = ("head", "received", "local", "global")
SCORES = "scores, {}"  # [M, C] test examples, minus the best one
CORRECT = "correct, {}"  # predictions


class Start(NamedTuple):
    """Initial state that both sides share, by client id."""

    x: np.ndarray  # [N, ...] as stored
    y: np.ndarray  # [N]
    names: list[str]  # of the networks
    weights: list[dict[str, np.ndarray]]  # by PyTorch's names
    train: list[np.ndarray]  # rows of the pool
    test: list[np.ndarray]
    counts: np.ndarray  # [K, C] n_ij
    server: dict[str, np.ndarray]  # generator or adapter, by PyTorch's names
    masks: np.ndarray | None = None  # [C, D] bool
    public: np.ndarray | None = None  # rows of the pool


class Order(NamedTuple):
    """Orders of the examples in a round, drawn by jaxproto."""

    clients: list[np.ndarray]  # [E, M] positions of each client's epochs, by id
    server: np.ndarray | None = None  # [E, K * C] rows of all uploads


def client(i: int, what: str = "") -> str:
    """Returns the place of a client, or of one of its arrays."""
    return f"client {i}{what and ', '}{what}"


def of_clients(every: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Joins the arrays of all clients in one dictionary."""
    return {client(i, k): v for i, own in enumerate(every) for k, v in own.items()}


def stacked(steps: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Stacks the arrays of several steps along a new first axis."""
    return {k: np.stack([one[k] for one in steps]) for k in steps[0]}


def below_best(scores: np.ndarray) -> np.ndarray:
    """Returns scores [M, C] minus the best score of each example."""
    with np.errstate(invalid="ignore"):  # -inf - -inf, without any prototype
        return scores - scores.max(-1, keepdims=True)
