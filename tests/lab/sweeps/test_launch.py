"""A sweep in parts: their commands, what is seen of them, workers that die."""

import fcntl
import json
import shlex
import socket
import sys
from types import SimpleNamespace

import pytest
from support.commands import called
from support.every import check_every
from support.refusal import refused
from support.sweeping import console, tiny

from jaxproto.lab import sweeps
from jaxproto.lab.sweeps import live_table, print_launcher
from jaxproto.lab.sweeps.plan import errors_named
from jaxproto.lab.sweeps.ray_launcher import launcher
from jaxproto.lab.sweeps.ray_launcher import worker as remote
from jaxproto.storage import workdir
from jaxproto.training import program_cache

SWEEP = ["sweep", "--config=fedproto:digits", "--sweep=seed=0,1"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two groups of programs, of 2 and 4 cells; two seeds in each."""
    pairs = {("local.batch_size", "method.lam"): [(10, 1.0), (20, 1.0), (20, 2.0)]}
    c = tiny(eval_every=1)
    given = sweeps.parse_axes(c, {"seed": [0, 1], **pairs})
    return sweeps.plan(c, given, tmp_path_factory.mktemp("sweep"))


@pytest.fixture
def shown(whole):
    return live_table.LiveTable(whole, console())


def said(shown) -> str:
    return shown._console.file.getvalue()


@pytest.fixture
def command(monkeypatch, capsys):
    """Calls the command line in this process; how it ended, its output, its errors."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["jaxproto", *words])
        monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "jaxproto", *words])
        return called(*words), *capsys.readouterr()

    return run


CANNOT_WORK = [
    ("--parts=2", "--parts=2 does nothing with --launcher=local"),
    ("--launcher=print --part=0/2", "--part=0/2 does nothing with --launcher=print"),
    ("--launcher=print --parts=3", "--parts=3 is more than the 2 cells of the sweep"),
    ("--launcher=ray --task_gpus=1.5", "--task_gpus=1.5 is neither a whole number"),
    ("--launcher=slurm", "--launcher"),
]


def test_flags_that_cannot_work_are_refused(command, tmp_path):
    def check(given, message):
        end, out, _ = command(*SWEEP, f"--workdir={tmp_path}/s", *given.split())
        assert f"{end}".startswith("error: ") and message in f"{end}"
        assert out == "" and not (tmp_path / "s").exists()

    check_every(CANNOT_WORK, check)
    end, _, _ = command("run", "--config=fedproto:digits", "--launcher=ray")
    assert f"{end}".startswith("error: --launcher=ray is for a sweep: add its axes")


def test_print_checks_the_plan_and_prints_nothing_but_commands(
    command, whole, tmp_path
):
    given = [*SWEEP, f"--workdir={tmp_path}/it's", "--config.rounds=2"]
    end, out, err = command(*given, "--launcher", "print", "-parts=2")
    start = [sys.executable, "-m", "jaxproto", *given]
    assert not end and "sweep: 2 cells = 2 seed" in err and "2 new" in err
    made = [shlex.split(line) for line in out.splitlines()]
    assert made == [[*start, f"--part={k}/2"] for k in range(2)]
    assert len(print_launcher.commands([], whole)) == len(whole.groups)
    end, out, _ = command(*given, "--launcher=print", "--sweep=local.epochs=1,0")
    assert "the cell seed=0, local.epochs=0 cannot run" in f"{end}" and out == ""
    assert not list(tmp_path.iterdir())


def test_parts_run_where_ray_and_room_are_and_use_what_they_may(shown, monkeypatch):
    def slots(has, *asked, **of_a_part):
        nodes = [{"Alive": True, "Resources": r} for r in has]
        ray = SimpleNamespace(nodes=lambda: nodes)
        return launcher.num_slots(ray, launcher.RayOptions(*asked, **of_a_part), shown)

    has, few = [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 3.0}, {"memory": 1.0}], [{"CPU": 2.0}]
    assert slots(has, cpus=2) == 5 and slots(has, cpus=2, gpus=0.5) == 4
    assert slots([{"CPU": 8.0, "GPU": 1.0}], gpus=0.2) == 5  # 1.0 // 0.2 is 4
    needs = "no machine has --task_cpus=4 and --task_gpus=0"
    with refused(f"{needs}; the largest has 2 cores"):
        slots(few, cpus=4)
    assert slots(few, "auto", cpus=4) == 1 and "waiting" in said(shown)  # elsewhere
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    monkeypatch.setenv("HOME", "elsewhere")
    made = launcher.environment(0)
    assert made["JAX_PLATFORMS"] == "cpu" and "HOME" not in made
    assert "JAX_PLATFORMS" not in launcher.environment(1)
    assert launcher.environment(0.5)["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.45"
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ray", None)
        told = refused("pip install 'jaxproto[cluster]'")
        with told, launcher.connect(launcher.RayOptions()):
            pass
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        there = f"127.0.0.1:{taken.getsockname()[1]}"
        with refused(f"--ray_address={there} cannot be joined: "):
            launcher._check_address(there)


class Ray:
    """Runs tasks at once, in this process; `play` says how each one ends."""

    class exceptions:
        RayError = type("RayError", (Exception,), {})
        RayTaskError = type("RayTaskError", (RayError,), {})
        Died = type("Died", (RayError,), {})

    def __init__(self, play):
        self.play, self.calls = play, []

    def remote(self, **options):
        assert options["max_calls"] == 1 and options["max_retries"] == 0

        def submit(job, k, n):
            self.calls.append(k)
            return object(), k

        return lambda f: SimpleNamespace(remote=submit)

    def wait(self, refs, num_returns, timeout):
        return refs, []

    def get(self, ref):
        return self.play(ref[1], self.calls.count(ref[1]))


def outcome(play, whole, shown, n=2):
    ray = Ray(play)
    tasks = launcher.Tasks(ray, None, whole, n, launcher.RayOptions(), shown)
    return tasks.run(), ray.calls


def test_the_part_of_a_worker_that_dies_is_taken_up_as_long_as_its_cells_go_on(
    whole, shown, monkeypatch
):
    def dies(part, times):
        def play(k, nth):  # the first workers of a part die
            if k == part and nth <= times:
                raise Ray.exceptions.Died("gone\nmore")
            return ""

        return play

    wrong, calls = outcome(dies(1, 2), whole, shown)
    assert wrong == [] and calls == [0, 1, 1, 1]
    assert said(shown).count("part 1/2 is taken up again: gone\n") == 2
    (wrong,), calls = outcome(dies(0, 100), whole, shown)  # without a checkpoint
    assert calls.count(0) == 3 and calls.count(1) == 1
    assert "part 0 of 2: its workers died 3 times" in wrong
    rounds = iter(range(1000))
    monkeypatch.setattr(launcher, "cell_status", lambda cell: f"round {next(rounds)}")
    wrong, calls = outcome(dies(0, 6), whole, shown)
    assert wrong == [] and calls.count(0) == 7


def test_errors_end_only_their_parts_are_said_once_and_name_the_cell(whole, shown):
    def play(k, times):
        if k == 2:
            raise Ray.exceptions.RayTaskError("cannot be read")
        return "the cell seed=0: no" if k < 2 else ""

    wrong, calls = outcome(play, whole, shown, 4)
    assert calls == [0, 1, 2, 3]
    both = "part 0, 1 of 4: the cell seed=0: no", "part 2 of 4: cannot be read"
    assert wrong == [*both]
    with pytest.raises(KeyError) as raised, errors_named(whole.cells[0]):
        raise KeyError("x")
    assert raised.value.__notes__ == [f"in the cell {whole.cells[0].name}"]


def test_a_machine_without_the_folder_says_so_an_error_its_cell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    c, folder, axes = tiny(), tmp_path / "s", {"seed": [0, 1]}
    how = sweeps.SweepOptions("auto", False, 0.0, 1)
    with remote.probe(folder) as shared:
        plan = axes, str(folder), how, {}, str(tmp_path)
        job = remote.RemoteJob(c.to_dict(), c.to_dict(), *plan, str(shared))
        away = job._replace(folder=str(tmp_path / "away"))
        assert f"cannot enter {tmp_path / 'away'}" in remote.train_part(away, 0, 1)
    assert list(folder.iterdir()) == []
    assert f"does not see {folder}" in remote.train_part(job, 0, 1)
    cell = sweeps.plan(c, sweeps.parse_axes(c, axes), folder).cells[1]
    cell.path.mkdir()
    workdir.save_config(cell.path, cell.config)
    summary = {"status": "finished", "rounds": cell.config.rounds, "rules": {}}
    (cell.path / "summary.json").write_text(json.dumps(summary))  # without records
    job = job._replace(probe=str(tmp_path))
    told = remote.train_part(job, 1, 2)
    assert told.startswith("the cell seed=1: ") and "not all of it is there" in told


def test_only_one_process_at_a_time_compiles_the_programs_of_a_set(whole, tmp_path):
    exp, c = whole.groups[0].exp, whole.cells[0].config

    def claim():
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    with program_cache.compile_lock(tmp_path / "compiled", c, exp):
        (lock,) = (tmp_path / "compiled" / "traced").glob("*.lock")
        with pytest.raises(BlockingIOError):
            claim()
    claim()
