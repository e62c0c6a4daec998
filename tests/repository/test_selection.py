"""Selection of a landing's long tests, and the mutants of the package."""

from support import mutants, seconds, selection


def test_slices_and_groups_that_changed_take_the_time_that_there_is():
    took = {f"g{i}": float(i % 7 + 1) for i in range(60)}
    parts = selection.slices(took, took, 5)
    assert sorted(name for part in parts for name in part) == sorted(took)
    sums = [sum(took[name] for name in part) for part in parts]
    assert max(sums) - min(sums) <= max(took.values())
    assert selection.slices(reversed([*took]), took, 5) == parts
    took = {"a": 30.0, "b": 10.0}
    assert selection.fitting(["a", "b", "new"], took, 20.0) == ["new", "b"]
    file = "tests/run/training/test_store.py"  # concerns itself and its module
    assert selection.concerns(file, [file])
    assert selection.concerns(file, ["jaxproto/training/store.py"])
    assert not selection.concerns(
        file, ["jaxproto/lab/saved_runs/store.py", "README.md"]
    )
    lines = [
        "1.0\ttests/kernel/round/test_gather.py::test_a",
        "0.5\ttests/kernel/round/test_gather.py::test_b[x]",
        "2.0\ttests/kernel/methods/test_contract.py::test_b[in_chunks-fedavg]",
    ]
    grouped = {
        "kernel/methods/test_contract.py-fedavg": 2.0,
        "kernel/round/test_gather.py": 1.5,
    }
    assert seconds.table(lines) == grouped
    # A file that is divided:
    lines += ["99.0\ttests/kernel/round/test_gather.py::test_b[y]"]
    grouped = seconds.table(lines)
    assert grouped["kernel/round/test_gather.py::test_b"] == 99.5
    test = "tests/kernel/round/test_gather.py::test_b[x]"
    assert selection.group_of(test, grouped) == "kernel/round/test_gather.py::test_b"
    assert selection.group_of(test, {}) == "kernel/round/test_gather.py"


def test_every_mutant_breaks_a_line_that_is_there_once():
    for mutant in mutants.MUTANTS:
        text = (mutants.ROOT / "jaxproto" / mutant.file).read_text()
        assert mutants.broken(text, mutant) != text
