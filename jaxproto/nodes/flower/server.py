"""Server of a federation on nodes: the programs of the simulator between messages.

The order in which uploads arrive does not matter: uploads are sorted by client and
summed as in the simulator. A missing or damaged reply counts as a lost upload.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple, Protocol

import jax
import numpy as np

from jaxproto.core.types import Array, Tree
from jaxproto.errors import UserError
from jaxproto.experiment.build import Experiment
from jaxproto.experiment.cohorts import NODES, evaluated_ids
from jaxproto.nodes.flower import stack_uploads
from jaxproto.nodes.flower.accept import Limits, ReplyParser, accepted_replies
from jaxproto.nodes.flower.node import Payload
from jaxproto.nodes.flower.protocol import Messages
from jaxproto.round.federation import Model
from jaxproto.round.participation import Participation
from jaxproto.round.uploads import PreReport, Report, Uploads, all_finite
from jaxproto.training import programs
from jaxproto.training.engine import Engine, Evaluation
from jaxproto.training.rounds import RoundOutputs
from jaxproto.training.run_evaluation import sums_of_clients
from jaxproto.wire import HEADER


class Link(Protocol):
    """Connection to the clients."""

    def members(self) -> set[int]:
        """Returns the ids of the connected clients."""

    def ask(self, stage: str, requests: Mapping[int, Payload]) -> dict[int, Payload]:
        """Returns replies by client id; a refusal has the field `accept.REFUSED`."""


class LostMessage(NamedTuple):
    """Message that was lost or refused."""

    round: int  # from 1
    client: int
    stage: str
    why: str


class Server(Engine):
    """Computes the server part of every round."""

    def __init__(
        self,
        exp: Experiment,
        link: Link,
        report_fault: Callable[[LostMessage], None],
        limits: Limits,
        context: Callable[[Array | int], programs.Context],
    ):
        """Compiles the programs of the server.

        Args:
          report_fault: Receives every lost or refused message.
          limits: Largest numbers that the server accepts.
          context: Returns number and key of a round.
        """
        self.exp = exp = exp._replace(store=NODES)
        self.link, self.report_fault, self.context = link, report_fault, context
        self.messages = Messages(exp, exp.cohorts)
        self.run = programs.jit_programs(exp)
        self.pack = jax.jit(self.messages.pack)
        self.shapes = stack_uploads.upload_shapes(exp, self.messages.down_shapes)
        self.parser = ReplyParser(self.messages, self.shapes, limits)
        self.is_finite = jax.jit(all_finite)
        aggregations = {
            "first": exp.method.first_aggregation,
            "train": exp.method.aggregation,
        }
        self.split_uploads = {
            stage: jax.jit(partial(stack_uploads.split_into_calls, exp, aggregation))
            for stage, aggregation in aggregations.items()
        }

    checkpoint_every = 1  # nodes keep only their last few checkpoints

    def round(self, r: int, model: Model) -> tuple[Model, list[RoundOutputs]]:
        """Exchanges messages with the connected participants and updates the server."""
        context = self.context(r)
        drawn = jax.device_get(self.run.participate(context, model.server))
        participants = self._participants(r, drawn)
        server, pre_reports, bytes_down = model.server, list[PreReport](), 0
        early: list = []
        if self.run.pre_aggregate:
            early, _ = self._split_broadcast(server)
            everyone = participants._replace(reports=participants.trains)
            uploads, report = self._exchange("first", r, everyone, early)
            stacked = self._in_calls(drawn, uploads, "first")
            server = self.run.pre_aggregate(context, server, stacked)
            sizes = report.scalars, report.bytes
            pre_reports = [PreReport(report.id, *sizes, report.usable)]
            bytes_down = HEADER  # the broadcast is sent in two messages
        down = self._training_message(server, early)
        uploads, report = self._exchange("train", r, participants, down)
        broadcast = self.run.broadcast(server)
        server = self._update(context, server, drawn, uploads, r)
        outputs = RoundOutputs(
            participants=participants,
            scalars_down=np.asarray(broadcast.scalars),
            bytes_down=np.asarray(broadcast.bytes) + bytes_down,
            reports=[report],
            pre_reports=pre_reports,
            diagnostics=jax.device_get(self.run.diagnostics(server)),
        )
        return Model(jax.block_until_ready(server), model.clients), [outputs]

    def evaluate(self, r: int, model: Model) -> list[Evaluation]:
        """Evaluates on the connected clients."""
        evaluated = {i for cohort in self.exp.cohorts for i in evaluated_ids(cohort)}
        data = self.messages.encode_for(self.pack(model.server), r)
        connected = evaluated & self.link.members()
        requests: dict[int, Payload] = {
            i: {"round": r, "down": data(i)} for i in sorted(connected)
        }
        parse = self.parser.evaluation
        replies = self._answers("evaluate", r - 1, requests, parse)
        if not replies:
            raise UserError(
                f"no client was evaluated after round {r}: none answered. Earlier "
                "rounds are saved; the same command resumes once nodes are connected."
            )
        exp = stack_uploads.restrict_evaluated(self.exp, list(replies))
        ids = map(evaluated_ids, exp.cohorts)
        results = stack_uploads.stack_messages(ids, replies, ())
        return [(exp, sums_of_clients(exp, results))]

    def _participants(self, r: int, drawn: Participation) -> Participation:
        """Returns the drawn clients that are connected."""
        members = self.link.members()
        connected = np.array([i in members for i in range(len(drawn.trains))])
        for i in np.flatnonzero(drawn.trains & ~connected):
            self._report(r, int(i), "train", "it is not connected")
        return Participation(*(a & connected for a in drawn))

    def _split_broadcast(self, server: Tree) -> tuple[list, list]:
        """Returns the packed fields of the broadcast in both exchanges."""
        return self.messages.split(jax.device_get(self.pack(server)))

    def _training_message(self, server: Tree, early: list) -> Tree:
        """Returns the packed fields of the broadcast that were not sent before."""
        if not self.exp.method.two_exchanges:
            return self.pack(server)
        unchanged, down = self._split_broadcast(server)
        pairs = zip(jax.tree.leaves(early), jax.tree.leaves(unchanged), strict=True)
        same = all(np.array_equal(a, b) for a, b in pairs)
        assert same, "pre_aggregate has changed what clients had been sent before it"
        return down

    def _exchange(
        self, stage: str, r: int, participants: Participation, down: Tree
    ) -> tuple[dict[int, Tree], Report]:
        """Sends `down` to the participants; returns their uploads and report."""
        data = self.messages.encode_for(down, r)
        requests: dict[int, Payload] = {
            i: {"round": r, "down": data(i), "reports": bool(participants.reports[i])}
            for i in np.flatnonzero(participants.trains).tolist()
        }
        parse = partial(self.parser.update, stage)
        updates = self._answers(stage, r, requests, parse)
        ups = {i: update.up for i, update in updates.items() if update.up is not None}
        return ups, stack_uploads.collect_report(len(participants.trains), updates)

    def _answers(
        self, stage: str, r: int, requests: Mapping[int, Payload], parse: Callable
    ) -> dict:
        """Returns the replies that `parse` accepts, and reports the others."""
        return accepted_replies(
            self.link.ask(stage, requests),
            lambda i, reply: parse(requests[i], i, reply),
            lambda i, why: self._report(r, i, stage, why),
        )

    def _update(
        self,
        context: programs.Context,
        server: Tree,
        drawn: Participation,
        ups: Mapping[int, Tree],
        r: int,
    ) -> Tree:
        """Updates the server; drops uploads that make its state infinite or nan."""

        def after(ups):
            return self.run.update(context, server, self._in_calls(drawn, ups, "train"))

        state = after(ups)
        if self.is_finite(state) or not self.is_finite(server):
            return state
        good = {i: up for i, up in ups.items() if self.is_finite(after({i: up}))}
        state = after(good)
        if not self.is_finite(state):
            good, state = {}, server
        for i in ups.keys() - good.keys():
            self._report(r, i, "train", "its upload makes the server's state infinite")
        return state

    def _report(self, r: int, id: int, stage: str, why: str):
        self.report_fault(LostMessage(r + 1, id, stage, why))

    def _in_calls(
        self, drawn: Participation, ups: Mapping[int, Tree], stage: str
    ) -> tuple[Uploads, ...]:
        """Returns the uploads of an exchange by call, the input of server programs."""
        arrived = np.array([i in ups for i in range(len(drawn.trains))])
        like = self.shapes.up if stage == "train" else self.shapes.first
        participation = drawn._replace(reports=drawn.trains & arrived)
        ids = [cohort.ids for cohort in self.exp.cohorts]
        stacked = stack_uploads.stack_messages(ids, ups, like)
        return self.split_uploads[stage](participation, stacked)
