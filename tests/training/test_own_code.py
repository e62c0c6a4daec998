"""Runs of the user's code that changes between two starts."""

import json

import jax
import jax.numpy as jnp
import pytest
from support.commands import called
from support.refusal import refused
from support.runs import digits, run
from support.sweeping import console

import jaxproto
from jaxproto.client import shared_init_key
from jaxproto.config import optimizers, registries
from jaxproto.experiment import traced
from jaxproto.methods import METHODS
from jaxproto.robustness import CENTRES
from jaxproto.storage import records, workdir
from jaxproto.summary import pictures
from jaxproto.training import xla_cache

CELL = """
import dataclasses
from jaxproto.methods.local import local
SCALE = 1.0
def mine(spec):
    base = local(spec)
    def loss(*args):
        value, aux = base.loss(*args)
        return SCALE * value, aux
    return dataclasses.replace(base, loss=loss)
"""


def cell(scale=1.0):
    """A method, defined in a cell of a notebook; `scale` is a value in it."""
    scope = {"__name__": "__main__"}
    exec(compile(CELL.replace("1.0", str(scale), 1), "<cell>", "exec"), scope)
    return scope["mine"]


@pytest.fixture
def define(monkeypatch):
    """Runs the cell of the method, with another value."""
    monkeypatch.setattr(pictures, "draw_all", lambda *_: None)
    return lambda scale: monkeypatch.setitem(METHODS, "mine", cell(scale))


def mine(**fields):
    return digits("mine", **{"data.clients": 2, "checkpoint_every": 1, **fields})


def losses(path):
    return [row["loss"] for row in records.read(path / "metrics.jsonl")]


def test_an_edited_method_is_refused_in_its_folder_and_goes_on_with_same_code(
    define, tmp_path
):
    define(1.0)
    run(mine(), tmp_path / "a")
    define(1.0)
    assert "nothing to do" in run(mine(), tmp_path / "a")[1]  # the cell again
    define(0.0)
    for rounds in (1, 2):
        with refused(
            f"{tmp_path}/a holds a run of other code: method 'mine' (Python ",
            ") has changed since. Nothing was changed. Choose another --workdir, or "
            "--same_code (same_code=True) to go on with the new code.",
        ) as error:
            run(mine(rounds=rounds), tmp_path / "a")
        assert "\n" not in str(error.value)
    jaxproto.run(mine(rounds=2), tmp_path / "a", console(), same_code=True)
    first, last = losses(tmp_path / "a")
    assert first > 0 and last == 0
    saved = json.loads((tmp_path / "a" / "provenance.json").read_text())
    assert [entry["after_round"] for entry in saved["history"]] == [0, 1]
    assert "nothing to do" in run(mine(rounds=2), tmp_path / "a")[1]


CONFIG = """
from support.runs import small
get_config = lambda: small("mine", data__clients=2, checkpoint_every=1)
"""


def test_an_edited_method_is_refused_on_nodes_and_goes_on_with_same_code(
    define, tmp_path
):
    (file := tmp_path / "its_config.py").write_text(CONFIG)
    where = f"--config={file}", f"--workdir={tmp_path / 'run'}", "--form=process"
    define(1.0)
    assert not called("flower", *where)
    define(0.0)
    assert "or --same_code" in called("flower", *where, "--config.rounds=2")
    assert not called("flower", *where, "--config.rounds=2", "--same_code")
    first, last = losses(tmp_path / "run")
    assert first > 0 and last == 0


def test_an_edited_method_has_a_default_folder_of_its_own(
    define, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for scale, loss, said in (
        (1.0, False, ""),
        (0.0, True, "holds a run of other code: method 'mine' ("),
        (1.0, False, "nothing to do"),
        (0.0, True, "nothing to do"),
    ):
        define(scale)
        _, text = run(mine(), "", width=400)
        assert said in text
        folder = text.rpartition("results: ")[2].strip()
        assert (losses(tmp_path / folder) == [0.0]) == loss
    names = sorted(p.name for p in (tmp_path / "runs").iterdir())
    assert len(names) == 2 and names[1].startswith(f"{names[0]}-code=")


def test_cells_of_a_sweep_are_refused_or_go_to_other_folders(
    define, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    define(1.0)
    axes = {"seed": [0, 1]}
    folders = {"": [], "sweep": []}
    for out, found in folders.items():
        result = jaxproto.sweep(mine(), axes, out, console())
        found += [c.path for c in result.plan.cells]
        assert len(result.summaries) == 2
    define(0.0)
    with refused("the cell seed=0 cannot run", "holds a run of other code: method 'mi"):
        jaxproto.sweep(mine(), axes, "sweep", console())
    result = jaxproto.sweep(mine(rounds=2), axes, "sweep", console(), same_code=True)
    assert [c.path for c in result.plan.cells] == folders["sweep"]
    assert all(losses(path)[1] == 0 for path in folders["sweep"])
    result = jaxproto.sweep(mine(), axes, "", console())
    assert not {c.path for c in result.plan.cells} & {*folders[""]}
    assert all(losses(c.path) == [0.0] for c in result.plan.cells)


def test_a_loaded_run_of_other_code_says_so_when_it_is_evaluated(
    define, tmp_path, monkeypatch
):
    said = []
    monkeypatch.setattr(xla_cache.logging, "warning", lambda _, text: said.append(text))
    define(1.0)
    run(mine(), tmp_path / "a")
    jaxproto.load(tmp_path / "a").evaluate("head")
    assert not said
    define(0.0)
    saved = jaxproto.load(tmp_path / "a")
    assert not said
    saved.evaluate("head")
    (text,) = said
    assert text.startswith(f"{tmp_path}/a is a run of other code: method 'mine' (")


def own_schedule(value):
    return lambda decay, rounds: lambda r: value


def own_init_key(value):
    return lambda key, id: shared_init_key(jax.random.fold_in(key, int(value)), id)


def own_centre(value):
    median = CENTRES["median"]
    return lambda x_KN, sent_K, share: median(x_KN, sent_K, share) + value


ENTRIES = [
    ("optimizer.schedule", optimizers.SCHEDULES, own_schedule),
    ("model.init", registries.INIT_KEYS, own_init_key),
    ("robust.aggregate", CENTRES, own_centre),
]


@pytest.mark.parametrize("field, table, make", ENTRIES)
def test_an_edited_entry_of_another_registry_trains_anew(
    field, table, make, define, tmp_path, monkeypatch
):
    """In another folder, with the cache that the command line uses."""
    monkeypatch.setattr(xla_cache, "enable_xla_cache", lambda: tmp_path / "jax")
    c, found = digits("fedproto", **{"rounds": 2}), []
    for value in (1.0, 0.0):
        monkeypatch.setitem(table, "own", make(value))
        c.update_from_flattened_dict({field: "own"})
        folder = tmp_path / str(value)
        jaxproto.run(c, folder, console(), cache=True)
        found.append(losses(folder))
        if value == 1.0:
            monkeypatch.setitem(table, "own", make(0.5))
            with refused("holds a run of other code: ", "'own' (Python "):
                jaxproto.run(c, folder, console(), cache=True)
    assert found[0] != found[1]
    assert not (tmp_path / "jax" / "traced").exists()


def half(decay, rounds):
    return lambda r: jnp.where(r < rounds / 2, 1.0, 0.01)


def by_whole_numbers(decay, rounds):
    return lambda r: 1.0 if rounds // 3 == 1 else 0.5  # equal for 4 and 5 rounds


SCHEDULES = [
    (half, True),
    (by_whole_numbers, True),
    (lambda decay, rounds: lambda r: jnp.float32(r) / jnp.float32(rounds), True),
    (lambda decay, rounds: lambda r: 1 / (1 + r), False),
    (lambda decay, rounds: lambda r: decay**r, False),
    *((optimizers.SCHEDULES[name], name == "cosine") for name in optimizers.SCHEDULES),
]


def test_a_schedule_that_uses_the_number_of_rounds_is_found():
    for make, uses in SCHEDULES:
        assert optimizers.reads_rounds(make) == uses, make
    assert optimizers.needs_rounds("local", "nobody's") == "optimizer.schedule=nobody's"


def test_a_schedule_that_uses_the_number_of_rounds_is_neither_extended_nor_shared(
    define, tmp_path, monkeypatch
):
    """Not in a folder, not by programs of another length, not by cells of a sweep."""
    monkeypatch.setitem(optimizers.SCHEDULES, "half", half)
    fields = {"optimizer.schedule": "half"}
    short, long = (mine_of("local", rounds=n, **fields) for n in (2, 4))
    assert traced.program_settings(short) != traced.program_settings(long)
    workdir.save_config(tmp_path, short)
    with refused("With optimizer.schedule=half every round depends on `rounds`"):
        workdir.check_config(tmp_path, long)
    straight = jaxproto.run(long, tmp_path / "long", console())
    axes = {"rounds": [2, 4], "optimizer.schedule": ["half"]}
    result = jaxproto.sweep(short, axes, tmp_path / "sweep", console())
    assert len(result.plan.groups) == 2
    assert losses(result.plan.cells[1].path) == losses(tmp_path / "long")
    assert straight["rounds"] == 4


def mine_of(method, **fields):
    return digits(method, **{"data.clients": 2, **fields})
