"""Cache of traced programs: kept, found again, and never confused."""

import importlib.resources
import os
import pickle
import subprocess
import sys
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import runs
from support.every import check_every

from jaxproto import client, federation, transforms
from jaxproto.config import registries
from jaxproto.experiment import build
from jaxproto.methods import METHODS
from jaxproto.storage import records
from jaxproto.summary import pictures
from jaxproto.training import (
    compiler,
    exported_program,
    program_cache,
    program_trial,
    programs,
    runner,
    xla_cache,
)

ARGS = (jnp.arange(3.0), jnp.ones(3))
NAMES = (federation, "init_cohort"), (federation, "train_cohort")
NAMES += (federation, "update_server"), (client, "evaluate_client")


def small(method="fedproto", **fields):
    return runs.small(method, "digits", model__group="mlp", **fields)


def double(x, y):
    return {"sum": x + y, "twice": (2 * x, None)}


def cache(folder, f=double, args=ARGS, cache_key="r", name="n"):
    """The function as `wrap` gives it, and how often it was traced for that."""
    traces = []

    def counted(*values):
        traces.append(1)
        return f(*values)

    made = program_cache.load_or_trace(folder, cache_key, name, counted, args)
    return made, len(traces)


def test_what_was_traced_is_not_traced_again_and_gives_the_same(tmp_path):
    for times in (1, 0):
        f, traces = cache(tmp_path)
        assert traces == times
        got, want = jax.jit(f)(*ARGS), double(*ARGS)
        assert jax.tree.structure(got) == jax.tree.structure(want)
        jax.tree.map(np.testing.assert_array_equal, got, want)
    longer = jnp.arange(4.0), jnp.ones(4)
    for other in ({"cache_key": "s"}, {"name": "m"}, {"args": longer}):
        assert cache(tmp_path, **other)[1] == 1
        assert cache(tmp_path)[1] == 0


def flipped(content, share=0.5):
    k = int(share * (len(content) - 1))
    return content[:k] + bytes([content[k] ^ 1]) + content[k + 1 :]


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
def test_a_damaged_or_foreign_file_is_made_anew_and_said_of_many_once(tmp_path, said):
    """It executes nothing, also with a right checksum."""
    cache(tmp_path / "whole")
    (file,) = (tmp_path / "whole").iterdir()
    whole, trap = file.read_bytes(), pickle.dumps((Trap(tmp_path / "ran"), b""))
    cache(tmp_path / "other", lambda x, y: {"sum": x - y, "twice": (x, None)}, name="b")
    (other,) = (tmp_path / "other").iterdir()
    signed = exported_program.digest(file.name.encode(), trap).encode() + b"\n" + trap
    damaged = [b"", whole[:-50], pickle.dumps((0, b"x")), trap, signed]
    damaged += [other.read_bytes(), *(flipped(whole, s) for s in np.linspace(0, 1, 25))]
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
    said.clear()
    tmp_path = tmp_path / "many"
    for name in "abc":
        cache(tmp_path, name=name)
    for file in tmp_path.iterdir():
        file.write_bytes(flipped(file.read_bytes()))
    assert [cache(tmp_path, name=name)[1] for name in "abc"] == [1, 1, 1]
    assert len(said) == 1


@pytest.mark.parametrize("umask", [0o000, 0o277])
def test_folder_and_files_belong_to_the_user_alone(tmp_path, umask):
    before, folder = os.umask(umask), tmp_path / "new" / "traced"
    try:
        cache(folder)
    finally:
        os.umask(before)
    (file,) = folder.iterdir()
    modes = [p.stat().st_mode & 0o777 for p in (file, file.parent, file.parent.parent)]
    assert modes == [0o600, 0o700, 0o700]


OF_OTHERS = [  # mode of the folder and of the one above; what is said of it
    (0o770, 0o700, "traced can be written by others (mode 770): remove it, or chmod 7"),
    (0o702, 0o700, "traced can be written by others (mode 702)"),
    (0o700, 0o777, "700 777 can be written by others (mode 777)"),
    *((0o700, 0o755, ""), (0o700, 0o1777, "")),
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


REPACKED = """
import sys
from pathlib import Path
import jax, numpy as np
from jaxproto.training import compiler, exported_program, program_cache
from test_program_cache import ARGS, cache, double

folder, share = Path(sys.argv[1]), float(sys.argv[2])
(file,) = (p for p in folder.iterdir() if p.suffix != ".trial")
head, _, data = file.read_bytes().partition(b"\\n")
k = int(share * (len(data) - 1))
data = data[:k] + bytes([data[k] ^ int(sys.argv[3])]) + data[k + 1 :]
head = exported_program.digest(file.name.encode(), data).encode()
file.write_bytes(head + b"\\n" + data)  # damage under a right checksum
def compiled(exp, examples, wrap):
    f = double if wrap is program_cache.uncached else cache(folder)[0]
    return jax.jit(f).lower(*ARGS).compile()
compiler._compile_all = compiled
f = compiler.compile_all(None, None, program_cache.disk_cache)
jax.tree.map(np.testing.assert_array_equal, f(*ARGS), double(*ARGS))
"""


@pytest.mark.long
def test_a_program_that_cannot_be_compiled_is_made_anew_whatever_its_checksum(tmp_path):
    """Also where the compiler crashes: then by the next start."""
    paths = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    env = {**os.environ, "PYTHONPATH": paths}
    for share in np.linspace(0, 1, 12):
        cache(tmp_path)
        for bit in "1", "0":  # whole at the second start
            command = [sys.executable, "-c", REPACKED, tmp_path, str(share), bit]
            done = subprocess.run(command, capture_output=True, text=True, env=env)
            if done.returncode >= 0:
                break
        assert done.returncode == 0, done.stderr
        assert not list(tmp_path.glob("*.trial"))


def test_a_program_of_which_a_process_died_is_made_anew(tmp_path, file, said):
    mark = file.with_name(f"{file.name}.trial")
    mark.write_text("1 on here")  # and no process has it locked
    for traces in (1, 0):
        with program_trial.trial() as loaded:
            assert cache(tmp_path)[1] == traces
            assert loaded == [file] and mark.exists()
            with program_trial.trial():
                assert cache(tmp_path)[1] == 0  # it is being compiled elsewhere
        assert not mark.exists()
    assert len(said) == 1 and "process that compiled it has died" in said[0]


def test_what_cannot_be_written_or_traced_stops_nothing(tmp_path, said, monkeypatch):
    def calls_python(x, y):
        return jax.pure_callback(np.add, jax.ShapeDtypeStruct((3,), jnp.float32), x, y)

    def wrong(x, y):
        raise KeyError("mine")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    assert cache(tmp_path, calls_python)[1] == 1
    with pytest.raises(KeyError, match="mine"):
        cache(tmp_path, wrong)[0](1.0, 2.0)
    said.clear()
    monkeypatch.setattr(program_cache.atomic, "write", full)
    f, traces = cache(tmp_path)
    assert traces == 1 and "No space left" in said[0]
    jax.tree.map(np.testing.assert_array_equal, f(*ARGS), double(*ARGS))
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


def test_nothing_is_kept_of_ones_own_code_or_without_a_folder(tmp_path, monkeypatch):
    made = small()
    exp = build.experiment(made, "cpu")

    def kept(folder=tmp_path):
        return program_cache.disk_cache(folder, made, exp) is not program_cache.uncached

    assert kept() and not kept(None) and not kept(Path("gs://bucket/compiled"))
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "mine", partial(double, 1))
        assert not kept()
    assert kept()
    mine = transforms.stateless(lambda protos: protos)
    monkeypatch.setitem(registries.OPTIONS["alignment"], "mine", mine)
    assert not kept()


@pytest.mark.long
def test_the_second_run_traces_nothing_and_ends_as_one_that_did(tmp_path, monkeypatch):
    def result(name, **options):
        runner.run(small(), tmp_path / name, **options)
        (record,) = records.read(tmp_path / name / "metrics.jsonl")
        return {key: record[key] for key in ("rules", "loss", "bytes_up")}

    monkeypatch.setattr(pictures, "draw_all", lambda *_: None)
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
