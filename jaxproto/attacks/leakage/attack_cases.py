"""Cases of an attack: clients, wire formats and noise levels of finished runs."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxproto.attacks.leakage import attacker, next_upload
from jaxproto.attacks.leakage.attacker import AttackerKnowledge
from jaxproto.attacks.leakage.next_upload import CapturedUpload, Messages, NextRound
from jaxproto.core.types import Client
from jaxproto.errors import UserError
from jaxproto.experiment.build import Experiment

BODIES = ("own", "other")
BROADCASTS = ("honest", "crafted")
ROUND = (0, 0)  # size of an update: all batches of a round of the run
SIZES = (1, 1), (2, 1), (4, 1), (8, 1), (2, 4), ROUND
CLIENTS, SHADOWS = 3, 64
Images = tuple[dict[str, np.ndarray], np.ndarray]  # by name, true first; classes


class AttackRequest(NamedTuple):
    """Options of an attack."""

    workdirs: Sequence[str]
    clients: Sequence[int] = ()  # ids; () attacks the first CLIENTS
    formats: Sequence[str] = ()  # on the wire; () is the format of each run
    noises: Sequence[float] = (0.0,)  # standard deviations, see `on_the_wire`
    body: str = "own"  # network that the attacker has, one of BODIES
    broadcast: str = "honest"  # of the attacked round, one of BROADCASTS
    sizes: Sequence[tuple[int, int]] = SIZES  # batch size and steps of updates
    shadows: int = SHADOWS  # federations of `lira`, an even number
    seed: int = 0
    data_dir: str = ""


class AttackCase(NamedTuple):
    """Upload of a client under attack, and the knowledge of the attacker."""

    captured: CapturedUpload
    messages: Messages  # as the server receives them
    known: AttackerKnowledge
    body: Client  # whose network the attacker has
    form: str  # on the wire
    noise: float
    seed: int

    @property
    def exp(self) -> Experiment:
        """Returns the experiment of the run."""
        return self.captured.next.run.exp


class AttackResult(NamedTuple):
    """Result of an attack on one client."""

    rows: list[dict]
    images: Images | None = None
    scores: tuple[np.ndarray, np.ndarray] | None = None  # members, others
    priority: tuple = ()  # the images of highest priority are drawn


def attack_cases(
    next: NextRound, request: AttackRequest, ids: Sequence[int]
) -> Iterator[AttackCase]:
    """Yields a case for every client, format and noise level."""
    for id in ids:
        captured = next_upload.upload(next, id)
        yield from cases_of(captured, attacker_network(captured, request.body), request)


def cases_of(
    captured: CapturedUpload, body: Client, request: AttackRequest
) -> Iterator[AttackCase]:
    """Yields a case for every format and noise level of an upload."""
    exp, seed = captured.next.run.exp, request.seed
    known = attacker.attacker_knowledge(exp, captured.id, seed)
    for form in request.formats or (exp.formats.up,):
        for noise in request.noises:
            messages = next_upload.on_the_wire(captured, form, noise, seed)
            yield AttackCase(captured, messages, known, body, form, noise, seed)


def attacker_network(captured: CapturedUpload, body: str) -> Client:
    """Returns the client whose network the attacker has, at the time of its upload."""
    if body == "other":
        _, cohort = next_upload.cohort_and_index(captured.next.run, captured.id)
        if len(cohort.ids) < 2:
            raise UserError(
                f"client {captured.id} is the only one with the architecture "
                f"{cohort.name}: there is no other body; ask for own."
            )
        row = cohort.ids.index(captured.id)
        captured = next_upload.upload(captured.next, cohort.ids[row - 1])
    has_early = next_upload.prototypes(captured.stages.early, ()) is not None
    return captured.stages.received if has_early else captured.stages.trained
