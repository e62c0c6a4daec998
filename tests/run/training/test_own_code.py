"""Runs of the user's code that changes between two starts."""

import json

import jax
import jax.numpy as jnp
import pytest
from rich.console import Console
from support import own_code
from support.own_code import half, losses, mine
from support.refusal import refused
from support.runs import run

import jaxproto
from jaxproto.config import optimizers, registries
from jaxproto.round.client import shared_init_key

define = own_code.define  # a fixture


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
    jaxproto.run(mine(rounds=2), tmp_path / "a", Console(quiet=True), same_code=True)
    first, last = losses(tmp_path / "a")
    assert first > 0 and last == 0
    saved = json.loads((tmp_path / "a" / "provenance.json").read_text())
    assert [entry["after_round"] for entry in saved["history"]] == [0, 1]
    assert "nothing to do" in run(mine(rounds=2), tmp_path / "a")[1]


@pytest.mark.long
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


def own_schedule(value):
    return lambda decay, rounds: lambda r: value


def own_init_key(value):
    return lambda key, id: shared_init_key(jax.random.fold_in(key, int(value)), id)


ENTRIES = [
    ("optimizer.schedule", optimizers.SCHEDULES, own_schedule),
    ("model.init", registries.INIT_KEYS, own_init_key),
]


@pytest.mark.long
@pytest.mark.parametrize("field, table, make", ENTRIES)
def test_an_edited_entry_of_another_registry_trains_anew(
    field, table, make, define, tmp_path, monkeypatch
):
    own_code.check_trains_anew(field, table, make, tmp_path, monkeypatch)


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
