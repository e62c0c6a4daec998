"""Pictures of a finished run."""

import functools
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from rich.console import Console
from support import runs, toys

from jaxproto import masks
from jaxproto.methods import METHODS
from jaxproto.storage import records as metrics
from jaxproto.summary import host_prototypes, pictures
from jaxproto.types import Protos

QUIET = Console(quiet=True)
DRAWN = ["partition_heatmap", "accuracy_over_rounds", "accuracy_against_bytes"]
DRAWN += ["prototype_angles", "prototype_heatmap", "head_norms", "prototypes_2d"]
DRAWN += ["features_grid"]


@pytest.fixture
def calls(monkeypatch):
    """{function of plots: arguments, those by name at the end}, in place of files."""
    seen = {}
    for name in DRAWN:
        monkeypatch.setattr(
            pictures.plots, name, lambda *a, of=name, **k: seen.update({of: (*a, k)})
        )
    return seen


@functools.cache
def make(name, **arguments):
    return toys.method(METHODS[name], **arguments)


def finished(tmp_path, method):
    """A made-up federation of six clients on two networks, and a work directory."""
    groups, spec, key = toys.cohorts(*toys.HET), toys.SPEC, jax.random.key(0)
    examples, rows = toys.pool_and_rows()
    train_KC = np.asarray(toys.counts(examples, rows, range(6)), int)
    clients = []
    for group in groups:
        net, ids = group.net, list(group.ids)
        params = [{"net": net.init(jax.random.fold_in(key, i))[0]} for i in ids]
        params = jax.tree.map(lambda *a: np.stack(a), *params)
        keeps = method.init_client(net, key)[2] != ()
        made = synthetic(train_KC[ids], spec.feat_dim, seed=len(clients))
        memory = made if keeps else ()
        clients.append(SimpleNamespace(params=params, memory=memory))
    server = method.init_server(groups[0].net, key)
    if server != ():
        sent = server.protos.mean.shape[1]
        server = server._replace(protos=synthetic(train_KC.sum(0), sent, seed=9))
    counts = SimpleNamespace(train=train_KC)
    exp = {"method": method, "spec": spec, "cohorts": groups, "counts": counts}
    exp = SimpleNamespace(**exp, timing=None)
    (path := tmp_path / "a-run").mkdir()
    total = {"up": 3, "down": 4}
    record = {"round": 1, "rules": {"head": {"pooled": 0.5}}, "bytes_total": total}
    metrics.append(path / "metrics.jsonl", record)
    return pictures.TrainedFederation(exp, server, tuple(clients)), path


def synthetic(count, dim, seed):
    mean = np.random.default_rng(seed).random((*count.shape, dim))
    return Protos((mean * (count > 0)[..., None]).astype(np.float32), count)


def by_id(trained, pick):
    """Parts that `pick` takes from the stacked clients, in the order of their ids."""
    rows = zip(toys.cohorts(*toys.HET), map(pick, trained.clients), strict=True)
    each = {i: row[k] for group, row in rows for k, i in enumerate(group.ids)}
    return np.stack([each[i] for i in range(6)])


def test_a_run_with_prototypes_has_all_pictures(tmp_path, calls):
    trained, path = finished(tmp_path, make("fedproto"))
    pictures.draw_all(trained, path, QUIET)
    assert set(calls) == set(DRAWN[:6])
    file, runs, _ = calls["accuracy_against_bytes"]
    assert file == path / "plots" / "bytes.png"
    assert list(runs) == ["a-run"] and runs["a-run"][0][0]["round"] == 1
    _, mean_CD, _, classes, title, _ = calls["prototype_angles"]
    np.testing.assert_array_equal(mean_CD, trained.server.protos.mean)
    assert title == "a-run" and classes == list(range(5))
    # Local prototypes are those of the class that most clients hold.
    _, proto_KD, title, named = calls["prototype_heatmap"]
    held_C = (trained.exp.counts.train > 0).sum(0)
    c = held_C.argmax()
    want_KD = by_id(trained, lambda clients: clients.memory.mean)[:, c]
    np.testing.assert_array_equal(proto_KD[:-1], want_KD)
    np.testing.assert_array_equal(proto_KD[-1], trained.server.protos.mean[c])
    assert named["rows"] == [*(f"client {i}" for i in range(6)), "global"]
    assert f"prototypes of class {c}, held by {held_C[c]} of 6 clients" in title
    # Norms of heads leave out the bias and come in the order of ids.
    _, runs, count_KC, _ = calls["head_norms"]
    kernel_KDC = by_id(trained, lambda clients: clients.params["net"]["head"]["kernel"])
    norm_KC = np.sqrt((kernel_KDC**2).sum(1))
    np.testing.assert_allclose(runs["a-run"], norm_KC, rtol=1e-6)
    np.testing.assert_array_equal(count_KC, trained.exp.counts.train)


def test_the_global_prototype_is_drawn_as_clients_compare_with_it(tmp_path, calls):
    for name in ("fedproto", "fedtgp", "protonorm"):
        (folder := tmp_path / name).mkdir()
        trained, path = finished(folder, make(name, upscale=3.0))
        pictures.draw_all(trained, path, QUIET)
        _, proto_KD, _, named = calls["prototype_heatmap"]
        c = (trained.exp.counts.train > 0).sum(0).argmax()
        want_D = 3 * trained.server.protos.mean[c]
        np.testing.assert_array_equal(proto_KD[-1], want_D)
        assert named["rows"][-1] == "global, as used"


def test_compressed_prototypes_are_compared_in_their_places(tmp_path, calls):
    method = make("tinyproto", s=3, mu=0.1)
    trained, path = finished(tmp_path, method)
    pictures.draw_all(trained, path, QUIET)
    down = method.broadcast(trained.server)
    want_CD = np.zeros((5, 8), np.float32)
    for c, row_S in enumerate(masks.random_masks(*toys.SPEC, 3, 0)):
        want_CD[c, row_S] = down.mean[c]
    np.testing.assert_array_equal(calls["prototype_angles"][1], want_CD)
    assert np.any(want_CD) and calls["prototype_heatmap"][1].shape == (7, 8)
    assert calls["prototype_heatmap"][-1]["mask_D"].sum() == 3
    # Those of another dimension are compared as sent.
    protos = host_prototypes.HostProtos(np.ones((5, 4)), np.ones(5))
    protos = host_prototypes.expand_masked(protos, None)
    found = host_prototypes.LearntPrototypes(None, protos, None)
    pictures.angles(tmp_path / "angles.png", found, 8, "FedGH")
    assert calls["prototype_angles"][1].shape == (5, 4)
    told = "FedGH, as sent: 4 values each, features have 8"
    assert calls["prototype_angles"][4] == told


def test_masks_are_read_in_both_forms_that_are_sent():
    index_CS = np.array([[1, 5], [0, 7]])
    for feat_dim in (40, 8):  # an index table, a bitmap
        sent = masks.mask_message(index_CS, feat_dim)
        method = SimpleNamespace(setup={"else": np.ones(3), "masks": sent})
        assert (sent.masks.dtype == bool) == (feat_dim == 8)
        mask_CD = host_prototypes.masks(method, feat_dim)
        assert mask_CD.shape == (2, feat_dim)
        assert np.argwhere(mask_CD).tolist() == [[0, 1], [0, 5], [1, 0], [1, 7]]
    assert host_prototypes.masks(make("fedproto"), 8) is None


def test_the_head_of_an_adapter_is_the_one_that_is_drawn():
    kernel = np.ones((6, 4, 5))
    net = {"head": {"kernel": 7 * kernel}}
    cohorts = toys.cohorts(*toys.HOM)
    adapter = {"adapter": {"head": {"kernel": kernel}}}
    for params, norm in (({"net": net} | adapter, 2), ({"net": net}, 14)):
        norm_KC = host_prototypes.head_norms(cohorts, [SimpleNamespace(params=params)])
        np.testing.assert_allclose(norm_KC, np.full((6, 5), norm))
    bare = [SimpleNamespace(params={"net": {"body": kernel}})]
    assert host_prototypes.head_norms(cohorts, bare) is None


def test_pictures_need_prototypes_or_not_and_matplotlib(tmp_path, calls, monkeypatch):
    trained, path = finished(tmp_path, make("local"))
    pictures.draw_all(trained, path, QUIET)
    assert set(calls) == {*DRAWN[:3], "head_norms"}
    said, before = [], runs.snapshot(tmp_path)
    console = SimpleNamespace(print=lambda line, **how: said.append(line))
    monkeypatch.setattr(pictures.plots, "available", lambda: False)
    pictures.draw_all(trained, path, console)
    told = "no pictures: pictures need matplotlib: pip install 'jaxproto[plots]'"
    assert said == [told] and runs.snapshot(tmp_path) == before


def test_iterations_are_those_of_the_rounds_that_were_watched():
    records = [
        {"round": 2, "rules": {}},  # of an older version
        {"round": 4, "every_round": {"alignment_iterations": [None, 30.0]}},
        {"round": 5, "every_round": {"alignment_iterations": [20.0]}},
    ]
    rounds, values = pictures.every_round(records, "alignment_iterations")
    assert rounds == [3, 4, 5] and np.isnan(values[0]) and values[1:] == [30, 20]
