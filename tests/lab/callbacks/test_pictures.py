"""Pictures of a finished run."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from rich.console import Console
from support import quick, runs, toys

from jaxproto.core.types import Protos
from jaxproto.lab.callbacks import pictures
from jaxproto.methods import METHODS
from jaxproto.prototypes import masks
from jaxproto.round.federation import Model
from jaxproto.storage import records as metrics
from jaxproto.summary import host_prototypes

QUIET = Console(quiet=True)
DRAWN = ["partition_heatmap", "accuracy_over_rounds", "accuracy_against_bytes"]
DRAWN += ["prototype_angles", "prototype_heatmap", "head_norms"]


@pytest.fixture
def calls(monkeypatch):
    """{function of plots: arguments, those by name at the end}, in place of files."""
    seen = {}
    for name in DRAWN:
        monkeypatch.setattr(
            pictures.plots, name, lambda *a, of=name, **k: seen.update({of: (*a, k)})
        )
    return seen


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
    return exp, Model(server, tuple(clients)), path


def synthetic(count, dim, seed):
    mean = np.random.default_rng(seed).random((*count.shape, dim))
    return Protos((mean * (count > 0)[..., None]).astype(np.float32), count)


def by_id(trained, pick):
    """Parts that `pick` takes from the stacked clients, in the order of their ids."""
    rows = zip(toys.cohorts(*toys.HET), map(pick, trained.clients), strict=True)
    each = {i: row[k] for group, row in rows for k, i in enumerate(group.ids)}
    return np.stack([each[i] for i in range(6)])


def test_a_run_with_prototypes_has_all_pictures(tmp_path, calls):
    method = toys.method(METHODS["fedproto"], upscale=3.0)
    exp, trained, path = finished(tmp_path, method)
    pictures.draw_all(exp, trained, path, QUIET)
    assert set(calls) == set(DRAWN)
    _, runs, _ = calls["accuracy_against_bytes"]
    assert list(runs) == ["a-run"] and runs["a-run"][0][0]["round"] == 1
    _, mean_CD, _, classes, title, _ = calls["prototype_angles"]
    np.testing.assert_array_equal(mean_CD, trained.server.protos.mean)
    assert title == "a-run" and classes == list(range(5))
    # Local prototypes: of the class that most hold; global: as clients compare with it.
    _, proto_KD, title, named = calls["prototype_heatmap"]
    held_C = (exp.counts.train > 0).sum(0)
    c = held_C.argmax()
    want_KD = by_id(trained, lambda clients: clients.memory.mean)[:, c]
    np.testing.assert_array_equal(proto_KD[:-1], want_KD)
    np.testing.assert_array_equal(proto_KD[-1], 3 * trained.server.protos.mean[c])
    assert named["rows"] == [*(f"client {i}" for i in range(6)), "global, as used"]
    assert f"prototypes of class {c}, held by {held_C[c]} of 6 clients" in title
    # Norms of heads leave out the bias and come in the order of ids.
    _, runs, count_KC, _ = calls["head_norms"]
    kernel_KDC = by_id(trained, lambda clients: clients.params["net"]["head"]["kernel"])
    norm_KC = np.sqrt((kernel_KDC**2).sum(1))
    np.testing.assert_allclose(runs["a-run"], norm_KC, rtol=1e-6)
    np.testing.assert_array_equal(count_KC, exp.counts.train)


def test_compressed_prototypes_are_compared_in_their_places(tmp_path, calls):
    method = toys.method(METHODS["tinyproto"], s=3, mu=0.1)
    exp, trained, path = finished(tmp_path, method)
    pictures.draw_all(exp, trained, path, QUIET)
    down = method.broadcast(trained.server)
    want_CD = np.zeros((5, 8), np.float32)
    for c, row_S in enumerate(masks.random_masks(*toys.SPEC, 3, 0)):
        want_CD[c, row_S] = down.mean[c]
    np.testing.assert_array_equal(calls["prototype_angles"][1], want_CD)
    assert np.any(want_CD) and calls["prototype_heatmap"][1].shape == (7, 8)
    assert calls["prototype_heatmap"][-1]["mask_D"].sum() == 3


def test_masks_are_read_in_both_forms_that_are_sent():
    index_CS = np.array([[1, 5], [0, 7]])
    for feat_dim in (40, 8):  # an index table, a bitmap
        sent = masks.mask_message(index_CS, feat_dim)
        assert (sent.masks.dtype == bool) == (feat_dim == 8)
        mask_CD = host_prototypes.masks(SimpleNamespace(setup=sent), feat_dim)
        assert mask_CD.shape == (2, feat_dim)
        assert np.argwhere(mask_CD).tolist() == [[0, 1], [0, 5], [1, 0], [1, 7]]


def test_pictures_need_prototypes_or_not_and_matplotlib(tmp_path, calls, monkeypatch):
    exp, trained, path = finished(tmp_path, toys.method(METHODS["local"]))
    pictures.draw_all(exp, trained, path, QUIET)
    assert set(calls) == {*DRAWN[:3], "head_norms"}
    before = runs.snapshot(tmp_path)
    monkeypatch.setattr(pictures.plots, "available", lambda: False)
    pictures.draw_all(exp, trained, path, QUIET)
    assert runs.snapshot(tmp_path) == before


def test_a_run_leaves_its_pictures(trained_runs):
    drawn = "partition accuracy bytes angles local_prototypes heads iterations"
    names = {p.name for p in (trained_runs("protonorm") / "plots").iterdir()}
    assert names == {f"{n}.png" for n in (*drawn.split(), "global_prototypes")}


@pytest.mark.long
def test_a_run_with_simulated_time_leaves_a_picture_of_it(tmp_path):
    c = runs.digits(time__devices="lognormal", rounds=3, eval_every=2)
    with quick.with_pictures():
        runs.run(c, tmp_path)
    assert (tmp_path / "plots/time.png").exists()
