"""What faults cost a federation of real processes: a deployment with TLS.

    python -m benchmarks.faults

One after the other, in a seeded order, while rounds go on: nodes are killed and started
again, stopped for longer than the server's patience, leave and come back, messages are
damaged on their way in both directions, a node of another configuration comes, the
server is killed and started again. A damaged message is waited for until the server
names it, a process until a round that all clients took part in has ended. It needs
`jaxproto[flower]`.
"""

import dataclasses
import random
import re
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from absl import flags

from benchmarks import measure
from jaxproto import config as config_
from jaxproto.contrib.flower_deployment.deployment import (
    Deployment,
    signal_tree,
    terminate_tree,
)
from jaxproto.flower.server_run import FAULTS
from jaxproto.storage import checkpoint, records

FLAGS = measure.flag_values()
flags.DEFINE_integer("faults", 50, "how many", 1, flag_values=FLAGS)
flags.DEFINE_integer("clients", 4, "each with a SuperNode", 2, flag_values=FLAGS)
flags.DEFINE_integer("seed", 0, "of the order of faults", flag_values=FLAGS)
flags.DEFINE_string("method", "fedproto", "of the federation", flag_values=FLAGS)
flags.DEFINE_float("patience", 30.0, "seconds for an answer", flag_values=FLAGS)
flags.DEFINE_float("limit", 600.0, "seconds of a fault", flag_values=FLAGS)
flags.DEFINE_float("minutes", 120.0, "after which no more begin", flag_values=FLAGS)

MOD = '''"""Damages what the benchmark of faults says, once."""

from pathlib import Path


def flipped(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def faulty(message, context, call):
    told, own = message.content["jaxproto"], context.node_config
    if told["stage"] == "who" and "other" in own:
        told["federation"] ^= 1
    flag = Path(str(own["folder"])) / "fault"
    if told["stage"] != "train" or not flag.exists():
        return call(message, context)
    way = flag.read_text()
    flag.unlink()
    if way == "down":
        told["down"] = flipped(told["down"])
    reply = call(message, context)
    if way == "up" and reply.has_content():
        said = reply.content["jaxproto"]
        said["up"] = flipped(said["up"])
    return reply
'''


@dataclasses.dataclass
class Injected:
    """A fault, and what came of it."""

    kind: str
    client: int | None
    round: int  # the last one that had ended
    seconds: float = 0.0  # until it was named, or until all took part again
    resumed: int | None = None  # the round after which the server goes on
    lost: list = dataclasses.field(default_factory=list)  # messages: round, client
    beyond: list = dataclasses.field(default_factory=list)  # of other clients


class Federation:
    """A deployment, with what its server has written."""

    def __init__(self, there: Deployment, clients: int, limit: float):
        """Of a deployment that was not started."""
        self.there, self.clients, self.limit = there, clients, limit
        self.submitted = None

    def start(self):
        """Everything."""
        self.there.start_superlink()
        for client in range(self.clients):
            self.there.start_node(client)
        self.submitted = self.there.run()

    def records(self) -> list[dict]:
        """Of the rounds that were evaluated."""
        return records.read(self.there.path / "metrics.jsonl")

    def faults(self) -> list[dict]:
        """That the server has named."""
        file = self.there.path / FAULTS
        return records.read(file) if file.exists() else []

    def ended(self) -> int:
        """Rounds, by their checkpoints."""
        return max(checkpoint.rounds(self.there.path / "checkpoints"), default=0)

    def whole(self, after: int) -> bool:
        """Whether a later round has ended for which no client is named."""
        ended = self.ended()
        failed = {f["round"] for f in self.faults()}
        return bool({*range(after + 1, ended + 1)} - failed)

    def resumed(self) -> list[int]:
        """The rounds after which a server that was started again has gone on."""
        said = self.there.log("run").read_text()
        return [int(n) for n in re.findall(r"resuming .* after round (\d+)", said)]

    def until(self, done: Callable[[], bool], what: str):
        """Waits.

        Raises:
          TimeoutError: for too long.
        """
        end_at = time.monotonic() + self.limit
        while not done():
            if time.monotonic() > end_at:
                raise TimeoutError(f"{what}: not in {self.limit:g} seconds")
            time.sleep(0.2)

    def named(self, client: int, before: int) -> bool:
        """Whether the server has named a fault of a client since."""
        return any(f["client"] == client for f in self.faults()[before:])


def node_killed(here: Federation, client: int):
    """In a round, and started again at once."""
    terminate_tree(here.there.nodes[client], signal.SIGKILL)
    here.there.start_node(client)


def node_stopped(here: Federation, client: int):
    """For longer than the server waits."""
    before, node = len(here.faults()), here.there.nodes[client]
    signal_tree(node, signal.SIGSTOP)
    here.until(lambda: here.named(client, before), "a stopped node is named")
    signal_tree(node, signal.SIGCONT)


def node_late(here: Federation, client: int):
    """It leaves, and joins when a round has ended without it."""
    before = len(here.faults())
    terminate_tree(here.there.nodes[client])
    here.until(lambda: here.named(client, before), "a node that left is named")
    here.there.start_node(client)


def damaged(way: str) -> Callable[[Federation, int], None]:
    """One bit of a message."""

    def inject(here: Federation, client: int):
        before = len(here.faults())
        (here.there.path / "nodes" / str(client) / "fault").write_text(way)
        here.until(lambda: here.named(client, before), "a damaged message is named")

    return inject


def stranger(here: Federation, client: int):
    """A node of another configuration, of a client that is there."""
    number = here.clients
    here.there.start_node(number, other=1)
    log = here.there.log(f"node-{number}")
    sent = log.read_text().count("Sent successfully")
    here.until(lambda: log.read_text().count("Sent successfully") > sent, "a stranger")
    terminate_tree(here.there.nodes.pop(number))


def server_killed(here: Federation, client: int):
    """SuperLink and ServerApp; both started again."""
    del client
    terminate_tree(here.there.superlink, signal.SIGKILL)
    terminate_tree(here.submitted)
    before = len(here.resumed())
    here.there.start_superlink()
    here.submitted = here.there.run()
    here.until(lambda: len(here.resumed()) > before, "a server that goes on")


SERVER = "server killed, started again"
KINDS = {  # with their share of the faults
    "node killed, started again": (node_killed, 8),
    "node stopped, continued": (node_stopped, 6),
    "node leaves, joins late": (node_late, 6),
    "upload damaged": (damaged("up"), 10),
    "broadcast damaged": (damaged("down"), 8),
    "node of another configuration": (stranger, 6),
    SERVER: (server_killed, 6),
}
DAMAGED = ("upload damaged", "broadcast damaged")
OF_NO_CLIENT = ("node of another configuration", SERVER)


def planned(number: int, seed: int) -> list[str]:
    """Kinds in the order of injection."""
    all_kinds = [kind for kind, (_, share) in KINDS.items() for _ in range(share)]
    rng = random.Random(seed)
    rng.shuffle(all_kinds)
    return [all_kinds[n % len(all_kinds)] for n in range(number)]


def injected(here: Federation, kind: str, rng: random.Random) -> Injected:
    """One fault, until a round had everyone again."""
    time.sleep(rng.uniform(0.0, 3.0))  # somewhere in a round
    client = rng.randrange(here.clients)
    made = Injected(kind, None if kind in OF_NO_CLIENT else client, here.ended())
    before, clock = len(here.faults()), time.perf_counter()
    KINDS[kind][0](here, client)
    after = here.ended()
    if kind not in DAMAGED:
        here.until(lambda: here.whole(after), f"a whole round after {kind}")
    if kind == SERVER:
        made.resumed = here.resumed()[-1]
    made.seconds = time.perf_counter() - clock
    for fault in here.faults()[before:]:
        own = fault["client"] == made.client
        (made.lost if own else made.beyond).append([fault[k] for k in SAID])
    return made


EVERY = 4  # rounds between two evaluations
SAID = ("round", "client", "stage", "why")


def federation(s: dict) -> dict:
    """All faults of one deployment, and what is left of its rounds."""
    c = config_.experiment(s["method"], "digits")
    c.rounds, c.data.clients, c.eval_every = 10_000, s["clients"], EVERY
    c.model.group = "mlp"
    c.model.feat_dim = 16
    rng, done = random.Random(s["seed"]), list[Injected]()
    with tempfile.TemporaryDirectory() as folder:
        times = {"wait": 60.0, "patience": s["patience"]}
        with Deployment(c, Path(folder) / "run", **times) as there:
            there.add_mod("faulty", MOD)
            here = Federation(there, s["clients"], s["limit"])
            here.start()
            here.until(lambda: here.whole(0), "a first whole round")
            until = time.monotonic() + 60.0 * s["minutes"]
            for kind in planned(s["faults"], s["seed"]):
                if time.monotonic() > until:
                    break
                done.append(injected(here, kind, rng))
                told = f"{len(done)} {kind}: {done[-1].seconds:.0f} s"
                print(told, done[-1].lost, done[-1].beyond, flush=True)
            found, rounds = here.records(), here.ended()
            terminate_tree(here.submitted)
    evaluated = [r["round"] for r in found]
    return {
        "injected": [dataclasses.asdict(one) for one in done],
        "rounds": rounds,
        "every_record_once": evaluated == [*range(EVERY, evaluated[-1] + 1, EVERY)],
        "ended_rounds_lost": sum(
            max(0, one.round - one.resumed) for one in done if one.resumed is not None
        ),
        "seconds_per_round": statistics.median(r["seconds"] for r in found),
    }


def rows(found: dict) -> list[tuple]:
    """The table: a line for each kind."""
    made = []
    for kind in KINDS:
        own = [one for one in found["injected"] if one["kind"] == kind]
        if own:
            made.append(
                (
                    kind,
                    len(own),
                    sum(len(one["lost"]) for one in own),
                    sum(len(one["beyond"]) for one in own),
                    statistics.median(one["seconds"] for one in own),
                )
            )
    return made


COLUMNS = ("fault", "times", "messages of its client lost", "others lost", "seconds")


def main():
    """Prints the table and writes the JSON file."""
    s = measure.parse(FLAGS, sys.argv, __doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # with its processes
    found = federation(s)
    title = f"{len(found['injected'])} faults, {found['rounds']} rounds"
    view = measure.table(title, COLUMNS, rows(found))
    measure.finish("faults", s, found, [view])


if __name__ == "__main__":
    main()
