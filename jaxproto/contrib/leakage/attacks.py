"""Attacks over runs, formats and noise: a table, and images of the first client."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jaxproto import wire
from jaxproto.config import privacy
from jaxproto.contrib.leakage import (
    attacker,
    class_inference,
    gradient_inversion,
    membership,
    next_upload,
    prototype_inversion,
    result_tables,
    scores,
)
from jaxproto.contrib.leakage.attacker import Known
from jaxproto.contrib.leakage.next_upload import NextRound, Upload
from jaxproto.errors import UserError, pick
from jaxproto.privacy import OFF
from jaxproto.reporting import compare
from jaxproto.summary.table_formats import View
from jaxproto.training import privacy_ledger
from jaxproto.types import Client

BODIES = ("own", "other")
CLIENTS, SIZES = 3, ((1, 1), (2, 1), (4, 1), (8, 1), (2, 4))
Images = tuple[dict[str, np.ndarray], np.ndarray]  # by name, true ones first; classes


class Asked(NamedTuple):
    """What is attacked."""

    workdirs: Sequence[str]
    clients: Sequence[int] = ()  # by id; () is the first ones
    formats: Sequence[str] = ()  # of values on the wire; () is that of each run
    noises: Sequence[float] = (0.0,)  # standard deviations, see `uploads.sent`
    body: str = "own"  # the network of the attacker, where it needs one
    sizes: Sequence[tuple[int, int]] = SIZES  # of updates: batch, steps
    seed: int = 0
    data_dir: str = ""


class Case(NamedTuple):
    """A client with what the attacker has, and how its message travels."""

    made: Upload
    has: Known
    body: Client
    form: str
    noise: float
    seed: int

    @property
    def sent(self):
        """Both messages as the server has them."""
        return next_upload.sent(self.made, self.form, self.noise, self.seed)


class Found(NamedTuple):
    """What an attack says of a client."""

    rows: list[dict]
    images: Images | None = None
    scores: tuple[np.ndarray, np.ndarray] | None = None  # members, others


class Attack(NamedTuple):
    """An attack as a command has it."""

    about: str
    each: Callable  # NextRound, Asked, ids -> Iterator of cases and what is found
    keys: tuple[str, ...]  # columns that say what a row is of
    success: str  # the column that a picture shows
    lacking: str  # what a method without rows does not send


class Measured(NamedTuple):
    """A table, its rows before rounding, and images."""

    view: View
    rows: list[dict]
    images: Images | None  # of the first client


def cases(next: NextRound, asked: Asked, ids: Sequence[int]) -> Iterator[Case]:
    """Every client in every format with every noise, after its own training."""
    for id in ids:
        made = next_upload.upload(next, id)
        yield from _travelling(made, body_of(made, asked.body), asked)


def _travelling(made: Upload, body: Client, asked: Asked) -> Iterator[Case]:
    run = made.next.run
    has = attacker.known(run.exp, made.id, asked.seed)
    for form in asked.formats or (run.exp.formats.up,):
        for noise in asked.noises:
            yield Case(made, has, body, form, noise, asked.seed)


def body_of(made: Upload, which: str) -> Client:
    """The client whose network the attacker has, as it was when features were made."""
    if which == "other":
        _, cohort = next_upload.cohort_of(made.next.run, made.id)
        if len(cohort.ids) < 2:
            raise UserError(
                f"client {made.id} is the only one with the architecture "
                f"{cohort.name}: there is no other body; ask for own."
            )
        at = cohort.ids.index(made.id)
        made = next_upload.upload(made.next, cohort.ids[at - 1])
    early = next_upload.prototypes(made.stages.early, ()) is not None
    return made.stages.received if early else made.stages.trained


def of_prototypes(next: NextRound, asked: Asked, ids: Sequence[int]):
    """Inversion of prototypes."""
    attacker.check_images(next.run.exp)
    scores.check()
    for case in cases(next, asked, ids):
        made = prototype_inversion.invert(
            case.made, case.sent, case.has, case.body, case.seed
        )
        if made is not None:
            yield case, Found(made[0], made[1:] if len(made[2]) else None)


def of_updates(next: NextRound, asked: Asked, ids: Sequence[int]):
    """Inversion of weight updates, for every size of a batch."""
    attacker.check_images(next.run.exp)
    scores.check()
    exp = next.run.exp
    gradient = privacy.without_noise(next.run.config, next.local)
    task = gradient_inversion.Task(
        exp.method, next.local.opt, exp.cohorts[0].net, gradient
    )
    for id in ids:
        for size in asked.sizes:
            made = next_upload.upload(next, id, *size)
            for case in _travelling(made, made.stages.trained, asked):
                found = gradient_inversion.invert(
                    task, made, case.sent[1], case.has, size, case.seed
                )
                if found is None:
                    return
                yield case, Found([found[0]], found[1:])


def of_members(next: NextRound, asked: Asked, ids: Sequence[int]):
    """Membership by prototypes and by weights."""
    for case in cases(next, asked, ids):
        made, sent, has = case.made, case.sent, case.has
        both = {
            "prototypes": membership.by_prototype(made, sent, has, case.body),
            "weights": membership.by_loss(made, sent, has),
        }
        for source, found in both.items():
            if found is not None:
                row = {"source": source, "AUC": scores.auc(*found)}
                yield case, Found([row], scores=found)


def of_classes(next: NextRound, asked: Asked, ids: Sequence[int]):
    """Presence and counts."""
    for case in cases(next, asked, ids):
        true = next.run.exp.counts.train[case.made.id]
        found = class_inference.said(case.made, case.sent, case.has, case.body)
        if found:
            yield case, Found([class_inference.judged(one, true) for one in found])


ATTACKS = {
    "prototypes": Attack(
        "images from uploaded prototypes",
        of_prototypes,
        ("start",),
        "psnr",
        "no prototypes of its own data",
    ),
    "updates": Attack(
        "images and labels from a weight update of few examples",
        of_updates,
        ("batch", "steps"),
        "psnr",
        "no whole network",
    ),
    "membership": Attack(
        "whether an example was trained on",
        of_members,
        ("source",),
        "AUC",
        "neither prototypes nor a network",
    ),
    "classes": Attack(
        "which classes a client holds, and how many examples of each",
        of_classes,
        ("source",),
        "recall",
        "neither prototypes nor a last layer",
    ),
}


def measure(name: str, asked: Asked, told: Callable[[str], object] = lambda _: None):
    """Runs an attack.

    Args:
      name: one of ATTACKS.
      asked: runs, clients, formats, noises.
      told: is told what is attacked next.

    Returns:
      What it found, `Measured`.

    Raises:
      UserError: a run, a client or a format that cannot be attacked.
    """
    attack = ATTACKS[pick("attack", name, ATTACKS)]
    pick("body", asked.body, BODIES)
    for form in asked.formats:
        pick("format", form, wire.FORMATS)
    if any(not (math.isfinite(n) and n >= 0) for n in asked.noises):
        raise UserError(f"noise is {asked.noises}; give numbers, at least 0.")
    rows: list[dict] = []
    notes, images = _notes(attack, asked), None
    groups = compare.groups(map(compare.load, asked.workdirs))
    some_private = any(g.config["privacy.unit"] != OFF for g in groups)
    for group in groups:
        found, kind = [], {"method": group.method}
        for run in group.runs:
            told(f"{name} of {run.path}")
            next = next_upload.next_round(run.path, asked.data_dir)
            ids = asked.clients or range(min(CLIENTS, len(next.run.exp.counts.train)))
            found += attack.each(next, asked, ids)
            kind |= _guarantee(next) if some_private else {}
        if not found:
            notes.append(f"{group.method}: sends {attack.lacking}.")
            continue
        rows += [{**kind, **row} for row in result_tables.pooled(attack.keys, found)]
        images = images or _first(attack, found)
    if some_private:
        notes.append(NOTE)
        rows = result_tables.by_epsilon(rows)
    return Measured(
        result_tables.view(f"{name}: {attack.about}", rows, notes), rows, images
    )


NOTE = "epsilon: of the run, without the round that is attacked."


def _guarantee(next: NextRound) -> dict:
    """Columns that say what privacy a run has."""
    run = next.run
    spent = privacy_ledger.ledger(run.config, run.exp)(run.round).get("privacy", {})
    return {"unit": run.config.privacy.unit, "epsilon": spent.get("epsilon")}


def _notes(attack: Attack, asked: Asked) -> list[str]:
    """What a reader must know of every row."""
    who = ", ".join(map(str, asked.clients)) or f"the first {CLIENTS}"
    notes = [
        f"Clients: {who}; means over them and over runs that differ in their seed. "
        f"Seed {asked.seed}. Uploads are those of one more round after the last "
        "checkpoint.",
        "noise: standard deviation over the root mean square of what is sent, besides "
        "that of privacy.unit; not clipped, so no differential privacy.",
    ]
    if attack.each is not of_updates:
        notes.append(f"The attacker's network, where it needs one: {asked.body}.")
    return notes


def _first(attack: Attack, found: list) -> Images | None:
    """Images of the first client; of updates, of the largest batch in one step."""
    shown = [(case, one) for case, one in found if one.images is not None]
    if not shown:
        return None
    if attack.each is of_updates:
        one_step = [p for p in shown if p[1].rows[0]["steps"] == 1] or shown
        first = [p for p in one_step if p[0].made.id == one_step[0][0].made.id]
        return max(first, key=lambda p: p[1].rows[0]["batch"])[1].images
    return shown[0][1].images
