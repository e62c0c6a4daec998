"""Computes rounds and evaluations, of one run or of several at once.

An engine knows how a round is computed and nothing of records, checkpoints, callbacks
or signals, which are the loop's (`loop.py`).
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from jaxproto.experiment.build import Experiment
from jaxproto.federation import Model
from jaxproto.training.evaluation import EvaluationSums, run_evaluation
from jaxproto.training.programs import State
from jaxproto.training.rounds import (
    RoundEnvironment,
    RoundOutputs,
    computed,
    round_context,
)

NO_LIMIT = 2**31 - 1  # rounds between checkpoints


class EngineEvaluation(NamedTuple):
    """An evaluation, and the experiment with the clients that took part in it."""

    exp: Experiment
    outcome: EvaluationSums


class Engine(Protocol):
    """Computes the rounds of runs that agree in their programs."""

    size: int  # federations in a program, by which the seconds of a round are divided
    checkpoint_every: int  # rounds between checkpoints at most

    def joined(self, states: Sequence[State]) -> Model:
        """Brings the states of the runs to where rounds are computed."""

    def round(self, r: int, model: Model) -> tuple[Model, list[RoundOutputs]]:
        """Computes round `r`, from 0; what is told of it, per run."""

    def evaluate(self, r: int, model: Model) -> list[EngineEvaluation]:
        """Evaluates after `r` rounds, per run."""

    def member(self, model: Model, i: int) -> Model:
        """Returns the model of one run."""


class LocalEngine:
    """One run on the devices of this process."""

    size, checkpoint_every = 1, NO_LIMIT

    def __init__(self, work: RoundEnvironment):
        """Of the data and compiled programs of a run."""
        self.work = work

    def joined(self, states: Sequence[State]) -> Model:
        """Returns the state as it is."""
        (state,) = states
        return Model(state.server, state.clients)

    def round(self, r: int, model: Model) -> tuple[Model, list[RoundOutputs]]:
        """Computes a round on the devices of this process."""
        context = round_context(self.work, r)
        model, outputs = computed(self.work, context, model, r)
        return model, [outputs]

    def evaluate(self, r: int, model: Model) -> list[EngineEvaluation]:
        """Evaluates on the devices of this process."""
        del r
        return [EngineEvaluation(self.work.exp, run_evaluation(self.work, model))]

    def member(self, model: Model, i: int) -> Model:
        """Returns the model of the only run."""
        del i
        return model
