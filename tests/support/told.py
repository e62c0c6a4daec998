"""Events that a writer gets from a run that is killed once and resumed."""

from jaxproto.callbacks import RunInfo, callback_factories, scalar_points

CONFIG = {"method.name": "local", "rounds": 8, "optimizer.learning_rate": 0.5}
CONFIG |= {"optimizer.nesterov": False, "some.list": [1, 2]}


def record(r):
    """Returns the record of an evaluation after round r, one in two rounds."""
    head, angles = {"pooled": r / 100, "client_mean": r / 200}, [30.0 + r - 1, 30.0 + r]
    made = {"round": r, "rules": {"head": head}, "loss": 1 / r}
    made |= {"bytes_total": {"up": 10 * r, "down": 20 * r}, "smallest_angle": angles[1]}
    return made | {"every_round": {"smallest_angle": angles}}


def killed_and_resumed(name, path, late=False):
    """Sends rounds 1 to 6 (`late`: from 3), a kill, and rounds 5 to 8."""
    (make,) = callback_factories([name])
    first, before = make(), [record(2)] if late else []
    first.on_start(RunInfo(path, CONFIG, 2 * late, before))
    for r in (4, 6) if late else (2, 4, 6):
        first.on_evaluation(record(r))
    first.on_end({"status": "interrupted", "reason": "", "rounds": 6})
    again = make()
    again.on_start(RunInfo(path, CONFIG, 4, [record(2), record(4)]))
    for r in (6, 8):
        again.on_evaluation(record(r))
    again.on_end({"status": "finished"})


def expected(told=None):
    every = [p for rec in told or map(record, (2, 4, 6, 8)) for p in scalar_points(rec)]
    return {(name, p.round): v for p in every for name, v in p.values.items()}


def once(rows):
    """Returns rows (name, round, value) as a dictionary; asserts that none is twice."""
    found = {}
    for name, r, value in rows:
        assert (name, r) not in found, (name, r)
        found[name, r] = value
    return found
