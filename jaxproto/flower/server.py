"""The server of a federation on nodes: the simulator's programs between messages.

The order in which uploads arrive changes nothing: they are put in the places of their
clients, and added up as the simulator does. Whoever does not answer, or with damaged
bytes, counts as one whose upload was lost.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

import jax
import numpy as np

from jaxproto.errors import UserError
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import NODES, evaluated_ids
from jaxproto.federation import Model
from jaxproto.flower import stack_uploads
from jaxproto.flower.node import Answer
from jaxproto.flower.protocol import Messages
from jaxproto.method import Aggregation
from jaxproto.participation import Participation
from jaxproto.training import programs, rounds
from jaxproto.training.evaluation import EvaluationSums
from jaxproto.training.loop import Engine, Evaluated
from jaxproto.training.programs import State
from jaxproto.types import Tree
from jaxproto.uploads import PreReport, Report, Uploads
from jaxproto.wire import HEADER
from jaxproto.wire.codec import WireError

EVERY_UPLOAD = Aggregation(lambda net, server, up, key: up)
REFUSED = "refused"  # the field of an answer that says why there is none


class Link(Protocol):
    """The way to the clients."""

    def members(self) -> set[int]:
        """The clients that are there now."""

    def ask(self, stage: str, told: Mapping[int, Answer]) -> dict[int, Answer]:
        """What clients say, by id; why one does not is its field `REFUSED`."""


class LostMessage(NamedTuple):
    """A message that did not come to its end."""

    round: int  # from 1
    client: int
    stage: str
    why: str


class Server(Engine):
    """The server's half of every round."""

    def __init__(
        self,
        exp: Experiment,
        seed: int,
        link: Link,
        fault: Callable[[LostMessage], None],
    ):
        """Of an experiment; `fault` is told of what did not come to its end."""
        self.exp = exp = exp._replace(store=NODES)
        self.seed, self.link, self.fault = seed, link, fault
        self.messages = Messages(exp)
        self.halves = self.messages.halves(exp.cohorts) if self.messages.twice else []
        made = jax.tree.map(jax.jit, programs.build_programs(exp))
        self.run = programs.with_floats(made, exp.floats)
        self.packed = jax.jit(self.messages.packed)
        self.shapes = stack_uploads.shapes(exp, self.messages.down)
        self.as_lanes = {
            stage: jax.jit(partial(stack_uploads.split_into_lanes, exp, aggregation))
            for stage, aggregation in (
                ("first", EVERY_UPLOAD),
                ("train", exp.method.aggregation),
            )
        }

    checkpoint_every = 1  # nodes keep their clients for a few rounds alone

    def begun(self, rounds_between: int) -> State:
        """The state before the first round; of the clients, who they are."""
        state = programs.init(self.exp, self.seed, self.run)
        watched = rounds.empty_history(self.run, state.server, rounds_between)
        return state._replace(watched=watched)

    def round(self, r: int, model: Model) -> tuple[Model, list[rounds.RoundOutputs]]:
        """Exchanges with whoever is there, and the server's step."""
        context = programs.round_context(self.seed, r)
        drawn = jax.device_get(self.run.participate(context, model.server))
        asked = self._asked(r, drawn)
        server, pre_reports, bytes_down = model.server, list[PreReport](), 0
        sent: list = []
        if self.run.pre_aggregate is not None:
            sent, _ = self._halves(server)
            who = asked._replace(reports=asked.trains)
            got, told = self._exchange("first", r, who, sent, self.shapes.first)
            server = self.run.pre_aggregate(
                context, server, self._lanes(drawn, got, "first")
            )
            pre_reports = [PreReport(told.id, told.sent, told.bytes)]
            bytes_down = HEADER
        down = self._second(server, sent)
        got, report = self._exchange("train", r, asked, down, self.shapes.up)
        told = self.run.broadcast(server)
        server = self.run.update(context, server, self._lanes(drawn, got, "train"))
        made = rounds.RoundOutputs(
            participants=asked,
            scalars_down=np.asarray(told.scalars),
            bytes_down=np.asarray(told.bytes) + bytes_down,
            reports=[report],
            pre_reports=pre_reports,
            diagnostics=jax.device_get(self.run.diagnostics(server)),
        )
        return Model(jax.block_until_ready(server), model.clients), [made]

    def evaluate(self, r: int, model: Model) -> list[Evaluated]:
        """What the clients that are there get right, and who they are.

        Raises:
          UserError: no client was there to be evaluated.
        """
        asked = {i for cohort in self.exp.cohorts for i in evaluated_ids(cohort)}
        data = self.messages.encode(self.packed(model.server), "down")
        there = asked & self.link.members()
        told: dict[int, Answer] = {i: {"round": r, "down": data} for i in sorted(there)}
        said = self._answers("evaluate", r - 1, told)
        if not said:
            raise UserError(
                f"no client was evaluated after round {r}: none answered. The rounds "
                "before it are saved; the same command goes on when nodes are there."
            )
        among = stack_uploads.restrict_evaluated(self.exp, list(said))
        sums = stack_uploads.merge_evaluations(self.exp, said, self.shapes, among)
        found = EvaluationSums(sums, jax.device_get(self.run.diagnostics(model.server)))
        return [Evaluated(among, found)]

    def _asked(self, r: int, drawn: Participation) -> Participation:
        """Who of those that were drawn is there."""
        members = self.link.members()
        there = np.array([i in members for i in range(len(drawn.trains))])
        for i in np.flatnonzero(drawn.trains & ~there):
            self.fault(LostMessage(r + 1, int(i), "train", "it is not connected"))
        return Participation(*(a & there for a in drawn))

    def _halves(self, server: Tree) -> tuple[list, list]:
        return self.messages.split(jax.device_get(self.packed(server)), self.halves)

    def _second(self, server: Tree, sent: list) -> Tree:
        """What is sent to whoever trains; of two exchanges, what was not sent yet."""
        if not self.messages.twice:
            return self.packed(server)
        first, down = self._halves(server)
        pairs = zip(jax.tree.leaves(sent), jax.tree.leaves(first), strict=True)
        same = all(np.array_equal(a, b) for a, b in pairs)
        assert same, "pre_aggregate has changed what clients had been sent before it"
        return down

    def _exchange(
        self, stage: str, r: int, asked: Participation, down: Tree, like: Tree
    ) -> tuple[dict[int, Tree], Report]:
        """The messages of clients, undamaged, and what was told besides them."""
        data = self.messages.encode(down, "down")
        told: dict[int, Answer] = {
            int(i): {"round": r, "down": data, "reports": bool(asked.reports[i])}
            for i in np.flatnonzero(asked.trains)
        }
        said, ups = self._answers(stage, r, told), {}
        for i, answer in said.items():
            if "up" not in answer:
                continue
            try:
                ups[i] = self.messages.decode(answer["up"], like, "up")
            except WireError as e:
                self.fault(LostMessage(r + 1, i, stage, f"its message is refused: {e}"))
        return ups, stack_uploads.collect_report(len(asked.trains), said, ups)

    def _answers(
        self, stage: str, r: int, told: Mapping[int, Answer]
    ) -> dict[int, Answer]:
        """What clients say, in the order of ids, without those that do not."""
        said = self.link.ask(stage, told) if told else {}
        for i in sorted(said):
            if REFUSED in said[i]:
                self.fault(LostMessage(r + 1, i, stage, str(said[i][REFUSED])))
        return {i: said[i] for i in sorted(said) if REFUSED not in said[i]}

    def _lanes(
        self, drawn: Participation, ups: Mapping[int, Tree], stage: str
    ) -> tuple[Uploads, ...]:
        """Messages as the programs take them, of the first or the second exchange."""
        arrived = np.array([i in ups for i in range(len(drawn.trains))])
        like = self.shapes.up if stage == "train" else self.shapes.first
        who = drawn._replace(reports=drawn.trains & arrived)
        stacked = stack_uploads.stack_uploads(self.exp, ups, like)
        return self.as_lanes[stage](who, stacked)
