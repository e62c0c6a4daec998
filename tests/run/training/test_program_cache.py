"""Cache of traced programs: kept, found again, and never confused."""

import importlib.resources
import os
import pickle
from functools import partial
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from support.every import check_every
from support.hostile_folders import flip
from support.runs import digits

from jaxproto.config import optimizers, registries, user_code
from jaxproto.core.types import Protos
from jaxproto.experiment import build
from jaxproto.methods import METHODS
from jaxproto.prototypes import transforms
from jaxproto.round import evaluation, federation
from jaxproto.storage import records
from jaxproto.training import (
    compiler,
    exported_program,
    program_cache,
    programs,
    runner,
    xla_cache,
)

ARGS = (jnp.arange(3.0), jnp.ones(3))
NAMES = (federation, "init_cohort"), (federation, "train_cohort")
NAMES += (federation, "update_server"), (evaluation, "evaluate_client")


def double(x, y):
    return {"sum": x + y, "twice": (2 * x, None)}


def cache(folder, f=double, name="n"):
    """The function as `wrap` gives it, and how often it was traced for that."""
    traces = []

    def counted(*values):
        traces.append(1)
        return f(*values)

    made = program_cache.load_or_trace(folder, "r", name, counted, ARGS)
    return made, len(traces)


def signed(name, data):
    """A file with the checksum that belongs to its content."""
    return exported_program.digest(name.encode(), data).encode() + b"\n" + data


@pytest.fixture
def said(monkeypatch):
    found = []
    monkeypatch.setattr(xla_cache.logging, "warning", lambda _, t: found.append(t))
    return found


@pytest.fixture
def file(tmp_path):
    cache(tmp_path)
    (file,) = tmp_path.iterdir()
    return file


class Trap:
    """Unpickled, it writes a file."""

    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return Path.touch, (self.file,)


@pytest.mark.long
def test_a_damaged_or_foreign_file_is_made_anew_and_that_is_said(tmp_path, said):
    """It executes nothing, also with a right checksum."""
    cache(tmp_path / "whole")
    (file,) = (tmp_path / "whole").iterdir()
    whole, trap = file.read_bytes(), pickle.dumps((Trap(tmp_path / "ran"), b""))
    cache(tmp_path / "other", lambda x, y: {"sum": x - y, "twice": (x, None)}, name="b")
    (other,) = (tmp_path / "other").iterdir()
    bits = np.linspace(0, 8 * len(whole) - 1, 25)
    damaged = [b"", whole[:-50], trap, signed(file.name, trap)]
    damaged += [other.read_bytes(), *(flip(whole, int(k)) for k in bits)]
    for i, content in enumerate(damaged):
        folder = tmp_path / str(i)
        cache(folder)
        (folder / file.name).write_bytes(content)
        f, traces = cache(folder)
        assert traces == 1, i
        jax.tree.map(np.testing.assert_array_equal, f(*ARGS), double(*ARGS))
        assert cache(folder)[1] == 0
        (told,) = said[i:]
        assert str(folder) in told and "made anew" in told
    assert not (tmp_path / "ran").exists()


def exported(static):
    """A program that returns a value with a static field."""
    program = jax.jit(lambda protos: Protos(protos.mean, protos.count, static))
    return jax.export.export(program)(PROTOS)


PROTOS = Protos(*ARGS, disclosed=True)
OTHERS = {"mean": jnp.ones(4)}, {"count": jnp.ones(3, int)}, {"disclosed": False}


def test_programs_of_foreign_types_or_of_other_arguments_are_refused():
    """Their digest is right: somebody else wrote them, or another version did."""
    with pytest.raises((SyntaxError, TypeError, ValueError)):
        exported_program.pack("n", exported(object()))  # no plain data
    packed = exported_program.pack("n", exported(True))
    assert exported_program.unpack("n", packed, (PROTOS,))
    for args in [(PROTOS, *ARGS), *((PROTOS.replace(**one),) for one in OTHERS)]:
        with pytest.raises(exported_program.Damaged, match="another function"):
            exported_program.unpack("n", packed, args)
    kind, data = b"jaxproto.core.types:Protos", packed.partition(b"\n")[2]
    for name in b"jaxproto.core.types:Client", b"os:system":
        other = signed("n", data.replace(kind, name.ljust(len(kind), b".")))
        with pytest.raises(exported_program.Damaged):
            exported_program.unpack("n", other, (PROTOS,))


OF_OTHERS = [  # mode of the folder and of the one above; what is said of it
    (0o770, 0o700, "traced can be written by others (mode 770): remove it, or chmod 7"),
    (0o700, 0o777, "700 777 can be written by others (mode 777)"),
    (0o700, 0o1777, ""),
]


def test_what_others_can_write_or_replace_is_not_used(tmp_path, said, monkeypatch):
    def check(mode, above, told):
        said.clear()
        folder = tmp_path / f"{mode:o} {above:o}" / "traced"
        cache(folder)
        folder.chmod(mode), folder.parent.chmod(above)
        assert [cache(folder)[1], cache(folder)[1]] == [0, 0]  # the function itself
        assert len(said) == bool(told) and told in "".join(said)

    check_every(OF_OTHERS, check)
    said.clear()
    cache(tmp_path / "file")
    (file,) = (tmp_path / "file").iterdir()
    file.chmod(0o620)
    assert cache(tmp_path / "file")[1] == 1
    assert "can be written by others" in said.pop()
    assert file.stat().st_mode & 0o777 == 0o600
    assert cache(tmp_path / "file")[1] == 0
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    f, traces = cache(tmp_path / "file")
    assert traces == 0 and "belongs to user" in said.pop()
    jax.tree.map(np.testing.assert_array_equal, f(*ARGS), double(*ARGS))


def test_programs_that_nobody_used_for_a_month_are_removed(tmp_path):
    cache(tmp_path, name="old")
    cache(tmp_path, name="used")
    for file in tmp_path.iterdir():
        os.utime(file, (0, 0))
    assert cache(tmp_path, name="used")[1] == 0
    cache(tmp_path, name="new")
    assert len(list(tmp_path.iterdir())) == 2
    assert cache(tmp_path, name="used")[1] == 0


def test_a_program_that_cannot_be_compiled_is_made_anew_whatever_its_checksum(
    file, said, monkeypatch
):
    def compiled(exp, examples, wrap):
        if wrap is program_cache.uncached:
            return "compiled"
        assert cache(file.parent)[1] == 0
        raise RuntimeError("XLA: damaged before its checksum")

    monkeypatch.setattr(compiler, "_compile_all", compiled)
    found = compiler.compile_all(None, None, program_cache.disk_cache)
    assert found == "compiled" and "XLA" in said[0]
    assert not list(file.parent.iterdir())


def test_a_program_of_which_a_process_died_is_made_anew(tmp_path, file, said):
    mark = file.with_name(f"{file.name}.trial")
    mark.write_text("1 on here")  # and no process has it locked
    for traces in (1, 0):
        with program_cache.trial() as loaded:
            assert cache(tmp_path)[1] == traces
            assert loaded == [file] and mark.exists()
            with program_cache.trial():
                assert cache(tmp_path)[1] == 0  # it is being compiled elsewhere
        assert not mark.exists()
    assert len(said) == 1 and "process that compiled it has died" in said[0]


def test_what_cannot_be_written_or_traced_stops_nothing(tmp_path, said, monkeypatch):
    def calls_python(x, y):
        return jax.pure_callback(np.add, jax.ShapeDtypeStruct((3,), jnp.float32), x, y)

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    assert cache(tmp_path, calls_python)[1] == 1
    said.clear()
    monkeypatch.setattr(program_cache.atomic, "write", full)
    f, traces = cache(tmp_path)
    assert traces == 1 and "No space left" in said[0]
    jax.tree.map(np.testing.assert_array_equal, f(*ARGS), double(*ARGS))
    assert not list(tmp_path.iterdir())


def test_the_recipe_holds_settings_data_and_every_source_but_no_seed(
    tmp_path, monkeypatch
):
    def cache_key(**fields):
        made = digits(**fields)
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
    made, exp = digits(), build.experiment(digits(), "cpu")
    (tmp_path / "methods").mkdir()
    monkeypatch.setattr(importlib.resources, "files", {"jaxproto": tmp_path}.get)
    monkeypatch.setattr(program_cache, "source", program_cache.source.__wrapped__)
    keys = {first}
    for name, text in [("method.py", "1"), ("methods/mine.py", ""), ("method.py", "2")]:
        (tmp_path / name).write_text(text)
        keys.add(program_cache.cache_key(made, exp))
    assert len(keys) == 4


def test_nothing_is_kept_of_ones_own_code_or_without_a_folder(tmp_path, monkeypatch):
    made = digits()
    exp = build.experiment(made, "cpu")

    def kept(folder=tmp_path):
        return program_cache.disk_cache(folder, made, exp) is not program_cache.uncached

    assert kept() and not kept(None) and not kept(Path("gs://bucket/compiled"))
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "mine", partial(double, 1))
        assert not kept()
    assert kept()
    for kind, table in user_code.registries().items():
        with monkeypatch.context() as patch:
            patch.setitem(table, "mine", lambda *_: 0)
            assert not kept(), kind
    mine = transforms.stateless(lambda protos: protos)
    monkeypatch.setitem(registries.OPTIONS["alignment"], "mine", mine)
    assert not kept()


def test_the_command_line_keeps_nothing_where_a_function_of_the_package_is_replaced(
    monkeypatch,
):
    assert not user_code.patched()
    monkeypatch.setattr(optimizers, "constant_schedule", lambda r: 0.0)
    assert user_code.patched()


@pytest.mark.long
def test_the_second_run_traces_nothing_and_ends_as_one_that_did(tmp_path, monkeypatch):
    def result(name, **options):
        runner.run(digits(), tmp_path / name, **options)
        (record,) = records.read(tmp_path / name / "metrics.jsonl")
        return {key: record[key] for key in ("rules", "loss", "bytes_up")}

    monkeypatch.setattr(runner.xla_cache, "enable_xla_cache", lambda: tmp_path / "jax")
    plain = result("plain")
    assert not (tmp_path / "jax").exists()
    assert result("first", cache=True) == plain
    for home, name in NAMES:
        monkeypatch.setattr(home, name, lambda: 0)  # a trace gives arguments
    assert result("second", cache=True) == plain
    with pytest.raises(TypeError):
        result("third")


@pytest.mark.parametrize("name", METHODS)
def test_the_programs_of_every_method_can_be_kept(tmp_path, name):
    made = digits(name)
    exp = build.experiment(made, "cpu")
    wrap = program_cache.disk_cache(tmp_path, made, exp)

    def submit(name, f, *rest):
        args = (exp.floats, *rest)
        again = wrap(name, f, args)
        assert again is not f, name
        return compiler.PendingProgram(jax.eval_shape(again, *args), None)

    functions, examples = programs.build_programs(exp), build.examples(exp.dataset)
    made = compiler.submit_programs(submit, exp, functions, examples)
    assert len(made.train) == len(exp.cohorts)
