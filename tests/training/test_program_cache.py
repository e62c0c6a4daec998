"""What was traced is kept, found again, and never taken for something else."""

import importlib.resources
import os
import pickle
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import traced_function
from support.every import check_every
from support.traced_function import assert_doubles, cache, double, flipped

from jaxproto import client, config, federation, transforms
from jaxproto.config import registries
from jaxproto.experiment import build
from jaxproto.methods import METHODS
from jaxproto.storage import records
from jaxproto.summary import pictures
from jaxproto.training import (
    compiler,
    exported_program,
    program_cache,
    programs,
    runner,
)

said = traced_function.said


def small(method="fedproto", **fields):
    """Three clients with a small network each."""
    made = config.experiment(method, "digits")
    made.model.group, made.data.clients, made.rounds = "mlp", 3, 1
    made.update_from_flattened_dict(fields)
    return made


def test_what_was_traced_is_not_traced_again_but_for_another_key_name_or_shape(
    tmp_path,
):
    for times in (1, 0):
        f, traces = cache(tmp_path)
        assert traces == times
        assert_doubles(f)
    others = {"cache_key": "s"}, {"name": "m"}, {"args": (jnp.arange(4.0), jnp.ones(4))}
    for other in others:
        assert cache(tmp_path, **other)[1] == 1
        assert cache(tmp_path)[1] == 0


DAMAGE = [lambda b: b"", lambda b: b[:-50], lambda b: pickle.dumps((0, b"x"))]
DAMAGE += map(flipped, np.linspace(0, 1, 25))


def test_a_damaged_file_is_made_anew_and_said_once(tmp_path, said):
    def check(i, damage):
        folder = tmp_path / str(i)
        for name in "ab":
            cache(folder, name=name)
        for file in folder.iterdir():
            file.write_bytes(damage(file.read_bytes()))
        f, traces = cache(folder, name="a")
        assert traces == 1 == cache(folder, name="b")[1]
        assert_doubles(f)
        assert cache(folder, name="a")[1] == 0
        (told,) = (text for text in said if f"{folder}:" in text)
        assert "made anew" in told

    check_every([*enumerate(DAMAGE)], check)


def test_a_file_in_anothers_place_does_not_pass_for_it(tmp_path, said):
    cache(tmp_path, name="a")
    (a,) = tmp_path.iterdir()
    cache(tmp_path, lambda x, y: {"sum": x - y, "twice": (x, None)}, name="b")
    (b,) = (file for file in tmp_path.iterdir() if file != a)
    a.write_bytes(b.read_bytes())
    f, traces = cache(tmp_path, name="a")
    assert traces == 1 and len(said) == 1
    assert_doubles(f)


class Trap:
    """Unpickled, it writes a file."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


def test_a_file_executes_nothing(tmp_path):
    cache(tmp_path)
    (file,) = tmp_path.iterdir()
    trap = pickle.dumps((Trap(tmp_path / "ran"), b""))
    file.write_bytes(trap)
    cache(tmp_path)
    signed = exported_program.digest(file.name.encode(), trap).encode() + b"\n" + trap
    file.write_bytes(signed)
    assert cache(tmp_path)[1] == 1
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o277])
def test_folder_and_files_belong_to_the_user_alone(tmp_path, umask):
    before = os.umask(umask)
    try:
        cache(tmp_path / "new" / "traced")
    finally:
        os.umask(before)
    (file,) = (tmp_path / "new" / "traced").iterdir()
    modes = [p.stat().st_mode & 0o777 for p in (file, file.parent, file.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]


def test_a_folder_that_others_can_write_or_replace_is_not_used(
    tmp_path, said, monkeypatch
):
    for mode in (0o770, 0o702):
        folder = tmp_path / f"{mode:o}"
        cache(folder)
        folder.chmod(mode)
        assert [cache(folder)[1], cache(folder)[1]] == [0, 0]  # the function itself
        told = said.pop()
        assert not said and "chmod 700" in told
        assert f"{folder} can be written by others (mode {mode:o})" in told
    for mode, times in ((0o755, 0), (0o777, 1), (0o1777, 0)):
        cache(tmp_path / f"above{mode}" / "traced")
        (tmp_path / f"above{mode}").chmod(mode)
        assert cache(tmp_path / f"above{mode}" / "traced")[1] == 0
        assert len(said) == times
        said.clear()
    cache(tmp_path / "mine")
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    f, traces = cache(tmp_path / "mine")
    assert traces == 0 and len(said) == 1 and "belongs to user" in said[0]
    assert_doubles(f)


def test_a_file_that_others_can_write_is_made_anew(tmp_path, said):
    cache(tmp_path)
    (file,) = tmp_path.iterdir()
    file.chmod(0o620)
    assert cache(tmp_path)[1] == 1
    assert "can be written by others" in said[0]
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert cache(tmp_path)[1] == 0


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path, said, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(program_cache.atomic, "write", full)
    f, traces = cache(tmp_path)
    assert traces == 1 and "No space left" in said[0]
    assert_doubles(f)


def test_programs_that_nobody_used_for_a_month_are_removed(tmp_path):
    cache(tmp_path, name="old")
    cache(tmp_path, name="used")
    for file in tmp_path.iterdir():
        os.utime(file, (0, 0))
    assert cache(tmp_path, name="used")[1] == 0
    cache(tmp_path, name="new")
    assert len(list(tmp_path.iterdir())) == 2
    assert cache(tmp_path, name="used")[1] == 0


def test_what_cannot_be_written_is_traced_each_time_and_an_error_is_its_own(tmp_path):
    def calls_python(x, y):
        return jax.pure_callback(np.add, jax.ShapeDtypeStruct((3,), jnp.float32), x, y)

    def wrong(x, y):
        raise KeyError("mine")

    assert cache(tmp_path, calls_python)[1] == 1
    with pytest.raises(KeyError, match="mine"):
        cache(tmp_path, wrong)[0](1.0, 2.0)
    assert not list(tmp_path.iterdir())


def test_the_recipe_holds_settings_data_and_source_but_no_seed(monkeypatch):
    def cache_key(**fields):
        made = small(**fields)
        return program_cache.cache_key(made, build.experiment(made, "cpu"))

    first = cache_key()
    assert cache_key() == first == cache_key(seed=3)
    floats = {"method.lam": 0.5, "optimizer.learning_rate": 0.5, "rounds": 9}
    assert cache_key(**floats) == first
    cosine = {"optimizer.schedule": "cosine"}
    other = [{"data.alpha": 5.0}, {"data.seed": 4}, cosine, {**cosine, "rounds": 9}]
    assert len({first, *(cache_key(**fields) for fields in other)}) == 1 + len(other)
    with jax.debug_nans(True):
        assert cache_key() != first
    monkeypatch.setattr(program_cache, "source", lambda: "edited")
    assert cache_key() != first


def test_the_source_is_every_file_of_the_package(tmp_path, monkeypatch):
    (tmp_path / "methods").mkdir()
    monkeypatch.setattr(importlib.resources, "files", {"jaxproto": tmp_path}.get)
    seen = set()
    for name, text in [("method.py", "1"), ("methods/mine.py", ""), ("method.py", "2")]:
        (tmp_path / name).write_text(text)
        seen.add(program_cache.source.__wrapped__())
    assert len(seen) == 3


def test_a_method_or_option_of_ones_own_or_without_a_local_folder_is_never_kept(
    tmp_path, monkeypatch
):
    made = small()
    exp = build.experiment(made, "cpu")

    def kept(folder=tmp_path):
        wrap = program_cache.disk_cache(folder, made, exp)
        return wrap is not program_cache.uncached

    assert kept() and not kept(None) and not kept(Path("gs://bucket/compiled"))
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "mine", partial(double, 1))
        assert not kept()
    assert kept()
    mine = transforms.stateless(lambda protos: protos)
    monkeypatch.setitem(registries.OPTIONS["alignment"], "mine", mine)
    assert not kept()


@pytest.mark.long
def test_the_second_run_traces_nothing_and_ends_like_one_that_did(
    tmp_path, monkeypatch
):
    def result(name, **options):
        runner.run(small(), tmp_path / name, **options)
        (record,) = records.read(tmp_path / name / "metrics.jsonl")
        return {key: record[key] for key in ("rules", "loss", "bytes_up")}

    def refuse():
        """What must not be traced: called with arguments, it fails."""

    monkeypatch.setattr(pictures, "draw_all", lambda *_: None)
    monkeypatch.setattr(runner.xla_cache, "enable_xla_cache", lambda: tmp_path / "jax")
    plain = result("plain")
    assert not (tmp_path / "jax").exists()
    assert result("first", cache=program_cache.disk_cache) == plain
    for name in ("init_cohort", "train_cohort", "update_server"):
        monkeypatch.setattr(federation, name, refuse)
    monkeypatch.setattr(client, "evaluate_client", refuse)
    assert result("second", cache=program_cache.disk_cache) == plain
    with pytest.raises(TypeError):
        result("third")


@pytest.mark.parametrize("name", METHODS)
def test_the_programs_of_every_method_can_be_kept(tmp_path, name):
    made = small(name)
    exp = build.experiment(made, "cpu")
    wrap = program_cache.disk_cache(tmp_path, made, exp)

    def submit(name, f, *rest, donate_argnums=()):
        args = (exp.floats, *rest)
        again = wrap(name, f, args)
        assert again is not f, name
        return compiler.PendingProgram(jax.eval_shape(again, *args), None)

    functions, examples = programs.build_programs(exp), build.examples(exp.dataset)
    made = compiler.submit_programs(submit, exp, functions, examples)
    assert len(made.train) == len(exp.cohorts)
