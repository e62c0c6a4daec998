"""The Python of pages runs from top to bottom, and does what it says.

A tutorial begins with its shortest block.
"""

import json
import re
from pathlib import Path

import jax
import numpy as np
import pytest
from support import pages
from support.pages import DOCS, TUTORIALS, blocks

import jaxproto
from jaxproto.core.types import Spec
from jaxproto.methods.fedavg import FedAvgUpload
from jaxproto.models import to_torch
from jaxproto.storage import records
from jaxproto.storage.status import Status

SCRIPTS = [*TUTORIALS, DOCS / "how_to/metrics.md", DOCS / "how_to/notebook.md"]
MARKED = re.compile(
    r"^<!-- shortest -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
SHORTEST = {page.stem: MARKED.findall(page.read_text()) for page in TUTORIALS}

elsewhere = pages.elsewhere


# ------------------------------------------- what the shortest of each has done


def own_method(made):
    run = jaxproto.load("runs/part_way")
    assert run.rounds == 2
    assert (run.config.method.name, run.config.method.share) == ("part_way", 0.5)
    up = FedAvgUpload({"w": np.float32([[2, 2], [4, 8]])}, np.ones(2))
    server = made["part_way"](Spec(3, 8)).update(None, {"w": np.zeros(2)}, up, None)
    np.testing.assert_allclose(server["w"], [1.5, 2.5])


def own_network(made, name="nnx"):
    run = jaxproto.load(f"runs/{name}")
    assert run.rounds == 2
    names = ["mlp", f"tanh_{name}"] * 2
    assert [client.architecture for client in run.clients] == names
    client = run.clients[3]
    x, y = client.data.test
    np.testing.assert_array_less(np.abs(client.features(x)), 1)  # tanh, not ReLU
    assert client.features(x).min() < 0
    assert client.accuracies()["head"] == np.mean(client.predict(x) == y)


def pretrained(made):
    """The bodies that clients begin with are the given ones, their heads differ."""
    net = made["pretrained"]((8, 8, 1), 10, 64)
    first, second = (to_torch(*net.init(jax.random.key(k))) for k in (0, 1))
    for name, weight in made["weights"].items():
        assert np.array_equal(first[name], second[name]) == ("head" not in name)
        assert np.array_equal(first[name], weight) == ("head" not in name)


def own_data(made):
    part = jaxproto.load("runs/own_data").partition
    whole_C = part.train.sum(0) + part.test.sum(0)
    np.testing.assert_array_equal(whole_C, np.bincount(made["y"]))


def own_nodes(made):
    assert jaxproto.load("runs/rehearsed").round == 2
    agreed = json.loads(Path("runs/rehearsed/agreement.json").read_text())
    assert agreed["labels"] == ["0", "1", "2"] and agreed["shape"] == [20]
    assert agreed["clients"]["2"] == [90, 30, ["0", "2"]]


def own_sampler(made):
    found = records.read("runs/turns/metrics.jsonl")
    sent = [np.array(record["bytes_by_client"]["up"]) > 0 for record in found]
    np.testing.assert_array_equal(sent, [[1, 0, 1, 0, 1], [0, 1, 0, 1, 0]])


def own_metric(made):
    told = made["summary"]["metrics"]["head"]["top_2"]["pooled"]
    hits = []
    for client in jaxproto.load("runs/top_2").clients:
        x, y = client.data.test
        best = np.argsort(-client.scores(x, "head"), 1)[:, :2]
        hits += (best == np.asarray(y)[:, None]).any(1).tolist()
    assert told["final"] == pytest.approx(np.mean(hits))


def own_writer(made):
    told = records.read("runs/lines/metrics.jsonl")
    heads = [f"{r['round']} {r['rules']['head']['pooled']}" for r in told]
    assert Path("runs/lines/lines.txt").read_text() == "\n".join(heads)


def predict(made):
    right = np.mean(made["predicted"] == made["y"])
    assert made["client"].accuracies()["head"] == right


def sweep(made):
    ended = [summary["status"] for summary in made["done"].summaries.values()]
    assert ended == ["finished"] * 4 and len(made["done"].plan.groups) == 1


def library(made):
    """Eight seeds of their own numbers, which learn."""
    accuracy = np.asarray(made["accuracy"])
    assert accuracy.shape == (8, 20) and len({*accuracy[:, -1]}) > 1
    assert np.all(accuracy[:, -1] > accuracy[:, 0]) and accuracy[:, -1].min() > 0.8
    assert Path("seeds.png").stat().st_size > 1000


def first_hour(made):
    c = made["experiment"]("fedproto")
    assert (c.method.lam, c.data.train_share) == (1.28, 0.25)
    jaxproto.check(c)
    np.testing.assert_array_equal(np.load("mine.npz")["y_train"], made["y"])


def end_of_first_hour(made):
    """Velocity changes what is sent, and no byte of it; the table has every method."""
    table = made["table"]
    assert [*table.index] == ["Local (reference)", "FedProto", "FedAvg", "heavy"]
    sent = table["kB/round"]
    assert sent["heavy"] == sent["FedProto"] > sent["Local (reference)"] == 0
    runs = [
        jaxproto.load(f"runs/{name}/{name}-mine-seed0")
        for name in ("fedproto", "heavy")
    ]
    first, last = (run.server for run in runs)
    assert len(last) == 2 and np.abs(last[1]).max() > 0
    assert not np.array_equal(first.protos.mean, last[0].protos.mean)
    assert Path("accuracy.png").stat().st_size > 1000


CHECKS = (
    first_hour,
    own_method,
    own_network,
    own_data,
    own_nodes,
    own_sampler,
    own_metric,
)
CHECKS += (own_writer, predict, pretrained, sweep, library)
DONE = {f.__name__: f for f in CHECKS}
ENDS = {"first_hour": end_of_first_hour}  # after the last block


@pytest.mark.long
@pytest.mark.parametrize("page", SCRIPTS, ids=lambda page: page.stem)
def test_the_python_of_a_page_runs_and_its_shortest_does_what_it_says(page, elsewhere):
    """In one namespace; errors name the line of the page."""
    assert SHORTEST.keys() == DONE.keys()
    namespace = {"__name__": "__main__"}
    found = blocks(page, "python")
    assert found, f"{page.name} has no Python"
    for i, (line, code) in enumerate(found):
        exec(compile("\n" * line + code, page, "exec"), namespace)
        if i == 0 and page.stem in DONE:
            DONE[page.stem](namespace)
    if page.stem in ENDS:
        ENDS[page.stem](namespace)
    if "summary" in namespace:
        assert Status(namespace["summary"]["status"]).ok


@pytest.mark.long
@pytest.mark.parametrize(("i", "name"), [(1, "linen"), (2, "equinox")])
def test_the_shortest_network_in_another_library(elsewhere, i, name):
    made = {"__name__": "__main__"}
    exec(compile(SHORTEST["own_network"][i], "own_network", "exec"), made)
    own_network(made, name)


def test_the_readme_has_the_shortest_method():
    assert SHORTEST["own_method"][0] in (pages.ROOT / "README.md").read_text()
