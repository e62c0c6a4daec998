"""The shortest block of each tutorial: complete, at most 15 lines, does what it says.

A line counts if it is not blank: imports, settings and the call that runs it, too.
"""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from support import pages, runs

import jaxproto
from jaxproto.methods.fedavg import FedAvgUpload
from jaxproto.types import Spec

MOST = 15
MARKED = re.compile(
    r"^<!-- shortest -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
SHORTEST = {page.stem: MARKED.findall(page.read_text()) for page in pages.TUTORIALS}
INDEX = (pages.DOCS / "tutorials" / "index.md").read_text()

cache = runs.cache
elsewhere = pages.elsewhere


def lines(block):
    return [line for line in block.splitlines() if line.strip()]


def execute(page, i=0):
    """In a namespace of its own, as a program; what it leaves there."""
    namespace = {"__name__": "__main__"}
    exec(compile(SHORTEST[page][i], page, "exec"), namespace)
    return namespace


def records(folder):
    text = Path(folder, "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("page", pages.TUTORIALS, ids=lambda page: page.stem)
def test_a_page_begins_with_the_shortest(page):
    assert pages.blocks(page, "python")[0][1] == SHORTEST[page.stem][0]


@pytest.mark.parametrize("page", list(SHORTEST))
def test_the_shortest_has_few_lines_and_none_is_squeezed(page):
    for block in SHORTEST[page]:
        assert len(lines(block)) <= MOST
        assert max(map(len, lines(block))) <= 88 and ";" not in block


def test_the_list_of_tutorials_says_how_many_lines():
    row = r"^\| [^|]+ \| (\d+) \| \[[^]]+\]\((\w+)\.md#[\w-]+\) \|$"
    told = [(page, int(n)) for n, page in re.findall(row, INDEX, re.MULTILINE)]
    real = [(page, len(lines(b))) for page, found in SHORTEST.items() for b in found]
    assert sorted(told) == sorted(real)


@pytest.mark.long
def test_own_method(elsewhere):
    made = execute("own_method")
    run = jaxproto.load("runs/part_way")
    assert made["summary"]["status"] == "finished" and run.rounds == 2
    assert (run.config.method.name, run.config.method.share) == ("part_way", 0.5)
    up = FedAvgUpload({"w": np.float32([[2, 2], [4, 8]])}, np.ones(2))
    server = made["part_way"](Spec(3, 8)).update(None, {"w": np.zeros(2)}, up, None)
    np.testing.assert_allclose(server["w"], [1.5, 2.5])


@pytest.mark.long
@pytest.mark.parametrize(("i", "name"), [(0, "nnx"), (1, "linen"), (2, "equinox")])
def test_own_network(elsewhere, i, name):
    summary = execute("own_network", i)["summary"]
    run = jaxproto.load(f"runs/{name}")
    assert summary["status"] == "finished" and run.rounds == 2
    names = ["mlp", f"tanh_{name}"] * 2
    assert [client.architecture for client in run.clients] == names
    client = run.clients[3]
    x, y = client.data.test
    np.testing.assert_array_less(np.abs(client.features(x)), 1)  # tanh, not ReLU
    assert client.features(x).min() < 0
    assert client.accuracies()["head"] == np.mean(client.predict(x) == y)


@pytest.mark.long
def test_own_data(elsewhere):
    made = execute("own_data")
    assert made["summary"]["status"] == "finished"
    part = jaxproto.load("runs/mine").partition
    whole_C = part.train.sum(0) + part.test.sum(0)
    np.testing.assert_array_equal(whole_C, np.bincount(made["y"]))


@pytest.mark.long
def test_own_nodes(elsewhere):
    assert execute("own_nodes")["summary"]["status"] == "finished"
    assert jaxproto.load("runs/rehearsed").round == 2
    made = json.loads(Path("runs/rehearsed/agreement.json").read_text())
    assert made["labels"] == ["0", "1", "2"] and made["shape"] == [20]
    assert made["clients"]["2"] == [90, 30, ["0", "2"]]


@pytest.mark.long
def test_own_sampler(elsewhere):
    execute("own_sampler")
    found = records("runs/turns")
    assert [record["participants"] for record in found] == [3, 2]
    sent = [np.array(record["bytes_by_client"]["up"]) > 0 for record in found]
    np.testing.assert_array_equal(sent, [[1, 0, 1, 0, 1], [0, 1, 0, 1, 0]])


@pytest.mark.long
def test_own_metric(elsewhere):
    told = execute("own_metric")["summary"]["metrics"]["head"]["top_2"]["pooled"]
    hits = []
    for client in jaxproto.load("runs/top_2").clients:
        x, y = client.data.test
        best = np.argsort(-client.scores(x, "head"), 1)[:, :2]
        hits += (best == np.asarray(y)[:, None]).any(1).tolist()
    assert told["final"] == pytest.approx(np.mean(hits))


@pytest.mark.long
def test_own_writer(elsewhere):
    execute("own_writer")
    heads = [(r["round"], r["rules"]["head"]["pooled"]) for r in records("runs/lines")]
    assert len(heads) == 3
    shown = "\n".join(f"{number} {head}" for number, head in heads)
    assert Path("runs/lines/lines.txt").read_text() == shown


@pytest.mark.long
def test_predict(elsewhere):
    made = execute("predict")
    right = np.mean(made["predicted"] == made["y"])
    assert made["client"].architecture == "cnn4_d"
    assert made["client"].accuracies()["head"] == right


@pytest.mark.long
def test_sweep(elsewhere):
    done = execute("sweep")["done"]
    ended = [summary["status"] for summary in done.summaries.values()]
    assert ended == ["finished"] * 4 and len(done.plan.groups) == 1
