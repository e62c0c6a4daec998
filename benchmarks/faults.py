"""Cost of faults in a Flower deployment of real processes with TLS.

    python -m benchmarks.faults

Faults are injected one after the other, in a seeded order, while rounds go on. Nodes
are killed and restarted, stopped for longer than the server's patience, or leave and
join again. Messages are damaged in both directions. A node of another configuration
joins. The server is killed and restarted. The fault of a message ends when the server
reports it, the fault of a process when all clients have taken part in a round. It needs
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

from benchmarks import measure
from jaxproto import config as config_
from jaxproto.nodes.deployment.deployment import Deployment, signal_tree, terminate_tree
from jaxproto.nodes.flower.server_run import FAULTS
from jaxproto.storage import checkpoint, records

FLAGS = measure.flag_values(
    faults=(50, "number of faults", 1),
    clients=(4, "clients, each a SuperNode", 2),
    seed=(0, "seed of the order of faults"),
    method=("fedproto", "method of the run"),
    patience=(30.0, "seconds to wait for a reply"),
    limit=(600.0, "most seconds of a fault"),
    minutes=(120.0, "time to inject faults"),
)

MOD = '''"""Damages one message, as the benchmark of faults selects."""

from pathlib import Path


def flipped(data):
    return data[:-1] + bytes([data[-1] ^ 1])


def faulty(message, context, call):
    request, node = message.content["jaxproto"], context.node_config
    if request["stage"] == "who" and "other" in node:
        request["federation"] ^= 1
    flag = Path(str(node["folder"])) / "fault"
    if request["stage"] != "train" or not flag.exists():
        return call(message, context)
    direction = flag.read_text()
    flag.unlink()
    if direction == "down":
        request["down"] = flipped(request["down"])
    reply = call(message, context)
    if direction == "up" and reply.has_content():
        fields = reply.content["jaxproto"]
        fields["up"] = flipped(fields["up"])
    return reply
'''


@dataclasses.dataclass
class Injected:
    """An injected fault and its consequences."""

    kind: str
    client: int | None
    round: int  # last round that had ended before it
    seconds: float = 0.0  # until its end
    resumed: int | None = None  # round after which a restarted server continued
    lost: list = dataclasses.field(default_factory=list)  # lost messages of its client
    beyond: list = dataclasses.field(default_factory=list)  # those of other clients


class Federation:
    """A deployment, and the files that its server writes."""

    def __init__(self, deployment: Deployment, clients: int, limit: float):
        """Takes a deployment that is not started yet."""
        self.deployment, self.clients, self.limit = deployment, clients, limit
        self.submitted = None

    def start(self):
        """Starts the SuperLink, all SuperNodes and the run."""
        self.deployment.start_superlink()
        for client in range(self.clients):
            self.deployment.start_node(client)
        self.submitted = self.deployment.run()

    def records(self) -> list[dict]:
        """Returns the records of the evaluated rounds."""
        return records.read(self.deployment.path / "metrics.jsonl")

    def faults(self) -> list[dict]:
        """Returns the faults that the server has reported."""
        return records.read(self.deployment.path / FAULTS)

    def ended(self) -> int:
        """Returns the last round that has a checkpoint."""
        return max(checkpoint.rounds(self.deployment.path / "checkpoints"), default=0)

    def whole(self, after: int) -> bool:
        """Returns whether a later round has ended without a reported fault."""
        ended = self.ended()
        failed = {f["round"] for f in self.faults()}
        return bool({*range(after + 1, ended + 1)} - failed)

    def resumed(self) -> list[int]:
        """Returns the rounds after which a restarted server has continued."""
        log = self.deployment.log("run").read_text()
        return [int(n) for n in re.findall(r"resuming .* after round (\d+)", log)]

    def until(self, done: Callable[[], bool], what: str):
        """Waits until `done` returns True.

        Raises:
          TimeoutError: it does not within the limit; `what` names it.
        """
        end_at = time.monotonic() + self.limit
        while not done():
            if time.monotonic() > end_at:
                raise TimeoutError(f"{what}: not within {self.limit:g} s (--limit)")
            time.sleep(0.2)

    def named(self, client: int, before: int) -> bool:
        """Returns whether a fault of the client follows the first `before` faults."""
        return any(f["client"] == client for f in self.faults()[before:])


def node_killed(fed: Federation, client: int):
    """Kills a node in a round, and restarts it at once."""
    terminate_tree(fed.deployment.nodes[client], signal.SIGKILL)
    fed.deployment.start_node(client)


def node_stopped(fed: Federation, client: int):
    """Stops a node for longer than the server waits, then continues it."""
    before, node = len(fed.faults()), fed.deployment.nodes[client]
    signal_tree(node, signal.SIGSTOP)
    fed.until(lambda: fed.named(client, before), "report of a stopped node")
    signal_tree(node, signal.SIGCONT)


def node_late(fed: Federation, client: int):
    """Ends a node, and restarts it when the server has reported its absence."""
    before = len(fed.faults())
    terminate_tree(fed.deployment.nodes[client])
    fed.until(lambda: fed.named(client, before), "report of a node that left")
    fed.deployment.start_node(client)


def damaged(direction: str) -> Callable[[Federation, int], None]:
    """Returns a fault that flips one bit of a message "up" or "down"."""

    def inject(fed: Federation, client: int):
        before = len(fed.faults())
        (fed.deployment.path / "nodes" / str(client) / "fault").write_text(direction)
        fed.until(lambda: fed.named(client, before), "report of a damaged message")

    return inject


def foreign_node(fed: Federation, client: int):
    """Adds a node of another configuration, and ends it when it has answered."""
    number = fed.clients
    fed.deployment.start_node(number, other=1)
    log = fed.deployment.log(f"node-{number}")
    sent = log.read_text().count("Sent successfully")
    fed.until(lambda: log.read_text().count("Sent successfully") > sent, "an answer")
    terminate_tree(fed.deployment.nodes.pop(number))


def server_killed(fed: Federation, client: int):
    """Kills SuperLink and ServerApp, and restarts both."""
    terminate_tree(fed.deployment.superlink, signal.SIGKILL)
    terminate_tree(fed.submitted)
    before = len(fed.resumed())
    fed.deployment.start_superlink()
    fed.submitted = fed.deployment.run()
    fed.until(lambda: len(fed.resumed()) > before, "a resumed server")


SERVER = "server killed, started again"
KINDS = {  # kind -> function, share of the faults
    "node killed, started again": (node_killed, 8),
    "node stopped, continued": (node_stopped, 6),
    "node leaves, joins late": (node_late, 6),
    "upload damaged": (damaged("up"), 10),
    "broadcast damaged": (damaged("down"), 8),
    "node of another configuration": (foreign_node, 6),
    SERVER: (server_killed, 6),
}
DAMAGED = ("upload damaged", "broadcast damaged")
OF_NO_CLIENT = ("node of another configuration", SERVER)


def planned(number: int, seed: int) -> list[str]:
    """Returns the kinds of faults in the order of injection."""
    all_kinds = [kind for kind, (_, share) in KINDS.items() for _ in range(share)]
    rng = random.Random(seed)
    rng.shuffle(all_kinds)
    return [all_kinds[n % len(all_kinds)] for n in range(number)]


def injected(fed: Federation, kind: str, rng: random.Random) -> Injected:
    """Injects one fault and waits for its end."""
    time.sleep(rng.uniform(0.0, 3.0))  # at any time of a round
    client = rng.randrange(fed.clients)
    entry = Injected(kind, None if kind in OF_NO_CLIENT else client, fed.ended())
    before, clock = len(fed.faults()), time.perf_counter()
    KINDS[kind][0](fed, client)
    after = fed.ended()
    if kind not in DAMAGED:
        fed.until(lambda: fed.whole(after), f"a complete round after {kind}")
    if kind == SERVER:
        entry.resumed = fed.resumed()[-1]
    entry.seconds = time.perf_counter() - clock
    for fault in fed.faults()[before:]:
        own = fault["client"] == entry.client
        (entry.lost if own else entry.beyond).append([*fault.values()])
    return entry


EVERY = 4  # rounds between two evaluations


def federation(s: dict) -> dict:
    """Injects all faults into one deployment; returns the results."""
    c = config_.experiment(s["method"], "digits")
    c.rounds, c.data.clients, c.eval_every = 10_000, s["clients"], EVERY
    c.model.group = "mlp"
    c.model.feat_dim = 16
    rng, done = random.Random(s["seed"]), list[Injected]()
    with tempfile.TemporaryDirectory() as folder:
        times = {"wait": 60.0, "patience": s["patience"]}
        with Deployment(c, Path(folder) / "run", **times) as deployment:
            deployment.add_mod("faulty", MOD)
            fed = Federation(deployment, s["clients"], s["limit"])
            fed.start()
            fed.until(lambda: fed.whole(0), "a first complete round")
            end_at = time.monotonic() + 60.0 * s["minutes"]
            for kind in planned(s["faults"], s["seed"]):
                if time.monotonic() > end_at:
                    break
                done.append(injected(fed, kind, rng))
                line = f"{len(done)} {kind}: {done[-1].seconds:.0f} s"
                print(line, done[-1].lost, done[-1].beyond, flush=True)
            evaluations, rounds = fed.records(), fed.ended()
            terminate_tree(fed.submitted)
    evaluated = [r["round"] for r in evaluations]
    return {
        "injected": [dataclasses.asdict(one) for one in done],
        "rounds": rounds,
        "every_record_once": evaluated == [*range(EVERY, evaluated[-1] + 1, EVERY)],
        "ended_rounds_lost": sum(
            max(0, one.round - one.resumed) for one in done if one.resumed is not None
        ),
        "seconds_per_round": statistics.median(r["seconds"] for r in evaluations),
    }


def rows(results: dict) -> list[tuple]:
    """Returns the rows of the table, one for each kind of fault."""
    table_rows = []
    for kind in KINDS:
        own = [one for one in results["injected"] if one["kind"] == kind]
        if own:
            lost, beyond = (sum(len(one[k]) for one in own) for k in ("lost", "beyond"))
            seconds = statistics.median(one["seconds"] for one in own)
            table_rows.append((kind, len(own), lost, beyond, seconds))
    return table_rows


COLUMNS = ("fault", "times", "messages of its client lost", "others lost", "seconds")


def main():
    """Prints the table and writes the JSON file."""
    s = measure.parse(FLAGS, sys.argv, __doc__)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # ends processes too
    results = federation(s)
    title = f"{len(results['injected'])} faults, {results['rounds']} rounds"
    view = measure.table(title, COLUMNS, rows(results))
    measure.finish("faults", s, results, [view])


if __name__ == "__main__":
    main()
