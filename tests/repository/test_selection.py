"""What a landing runs of the long tests, and the mutants of the package."""

import subprocess

from support import mutants, seconds, selection


def test_slices_hold_every_group_once_and_take_about_equal_time():
    took = {f"g{i}": float(i % 7 + 1) for i in range(60)}
    parts = selection.slices(took, took, 5)
    assert sorted(name for part in parts for name in part) == sorted(took)
    sums = [sum(took[name] for name in part) for part in parts]
    assert max(sums) - min(sums) <= max(took.values())
    assert selection.slices(reversed([*took]), took, 5) == parts


def test_groups_that_changed_run_as_far_as_there_is_time():
    took = {"a": 30.0, "b": 10.0}
    assert selection.fitting(["a", "b", "new"], took, 20.0) == ["new", "b"]
    assert selection.fitting(["a", "b"], took, 5.0) == []
    file = "tests/training/test_store.py"  # concerns itself and its module
    assert selection.concerns(file, [file])
    assert selection.concerns(file, ["jaxproto/training/store.py"])
    assert selection.concerns("tests/test_gather.py", ["jaxproto/gather.py"])
    assert selection.concerns("tests/benchmarks/test_peers.py", ["benchmarks/peers.py"])
    assert not selection.concerns(file, ["jaxproto/saved_runs/store.py", "README.md"])


def test_files_that_were_only_moved_have_not_changed(tmp_path):
    def git(*args, date="2020-01-01T00:00:00"):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        env = {"GIT_COMMITTER_DATE": date, "HOME": str(tmp_path), "PATH": "/usr/bin"}
        subprocess.run(["git", *who, *args], cwd=tmp_path, env=env, check=True)

    git("init", "-q")
    for name in ("old", "moved", "mended"):
        (tmp_path / name).write_text(f"{name}\n" * 9)
    git("add", "-A")
    git("commit", "-qm", "first")
    (tmp_path / "moved").rename(tmp_path / "there")
    (tmp_path / "mended").write_text("other")
    (tmp_path / "new").write_text("new")
    git("add", "-A")
    git("commit", "-qm", "second", date="2020-01-03T00:00:00")
    changed = selection.changed_files("2020-01-02T00:00:00", tmp_path)
    assert sorted(changed) == ["mended", "new"]


def test_seconds_are_added_up_by_group():
    lines = [
        "1.0\ttests/test_gather.py::test_a",
        "0.5\ttests/test_gather.py::test_b[x]",
        "2.0\ttests/methods/test_contract.py::test_a[fedavg]",
        "2.0\ttests/methods/test_contract.py::test_b[in_chunks-fedavg]",
        "1.0\ttests/methods/test_contract.py::test_b[tpu-lg_fedavg]",
    ]
    assert seconds.table(lines) == {
        "methods/test_contract.py-fedavg": 4.0,
        "methods/test_contract.py-lg_fedavg": 1.0,
        "test_gather.py": 1.5,
    }


def test_every_mutant_breaks_a_line_that_is_there_once():
    for mutant in mutants.MUTANTS:
        text = (mutants.ROOT / "jaxproto" / mutant.file).read_text()
        assert mutants.broken(text, mutant) != text
