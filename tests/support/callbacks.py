"""Callbacks that note events, or end a run."""

import csv
from functools import partial

from jaxproto.callbacks import Callback, Stop
from jaxproto.callbacks.base import EVENTS
from support.runs import small


class Heard(Callback):
    def __init__(self):
        self.events = []
        for event in EVENTS:
            setattr(self, event, partial(self.note, event))

    def note(self, *event):
        self.events.append(event)

    def names(self):
        return [name for name, *_ in self.events]

    def of(self, event):
        return [what for name, *what in self.events if name == event]


class StopAt2(Callback):
    def on_evaluation(self, record):
        return {2: Stop("enough")}.get(record["round"])


def several(**changes):
    return small(**{"rounds": 4, "eval_every": 2, "checkpoint_every": 3, **changes})


def table(path):
    with (path / "metrics.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["round", "name", "value"]
    return [(name, int(r), float(value)) for r, name, value in rows]
