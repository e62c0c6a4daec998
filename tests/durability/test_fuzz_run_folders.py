"""Random damage to the folder of a run, and every command that reads it.

A minute, or FUZZ_SECONDS; `.ci/all` takes an hour. A failure prints its steps.
"""

import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from support import hostile_folders
from support.hostile_folders import IRREGULAR, READERS, SIGNS, WRITERS

pytestmark = [pytest.mark.long, pytest.mark.landing]
BATCH = 20  # sequences of steps between two looks at the clock
SETTINGS = settings(
    max_examples=BATCH,
    stateful_step_count=6,
    deadline=None,
    database=None,
    derandomize=False,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
PLACE = st.integers(0, 2**16)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    with hostile_folders.two_runs(tmp_path_factory.mktemp("made")) as found:
        yield found


def machine(made, done: Counter):
    """The machine over copies of the runs; counts what it does."""
    config, folders = made

    class RunFolders(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.root = Path(tempfile.mkdtemp())
            self.runs = hostile_folders.copies(folders, self.root)
            done["sequences"] += 1

        def teardown(self):
            shutil.rmtree(self.root)

        def file(self, place) -> Path:
            """A file or folder of the run; the ones that every command reads often."""
            found = sorted(self.runs[0].rglob("*"))
            top = [p for p in found if p.parent == self.runs[0]] * 3
            every = top + found or [self.runs[0] / "config.json"]
            return every[place % len(every)]

        @rule(place=PLACE, kind=st.sampled_from(sorted(IRREGULAR)))
        def irregular(self, place, kind):
            IRREGULAR[kind](self.file(place))
            done["damages"] += 1

        @rule(place=PLACE, at=PLACE, how=st.sampled_from(["flip", "cut", "foreign"]))
        def bytes(self, place, at, how):
            file = self.file(place)
            if not file.is_file() or file.stat().st_size > 2**24:
                return
            content = bytearray(file.read_bytes())
            if how == "foreign":
                content = self.file(at).read_bytes() if self.file(at).is_file() else b""
            elif content:
                at %= len(content)
                content[at] ^= 1 << place % 8
                content = content[:at] if how == "cut" else content
            hostile_folders.replace(file, lambda f: f.write_bytes(content))
            done["damages"] += 1

        @rule(
            name=st.sampled_from(["config.json", "summary.json", "metrics.jsonl"]),
            place=PLACE,
            sign=st.sampled_from(SIGNS),
        )
        def sign(self, name, place, sign):
            file = self.runs[0] / name
            if not file.is_file() or file.stat().st_size > 2**24:
                return
            try:
                lines = file.read_text().splitlines()
                lines = lines if name == "metrics.jsonl" else ["\n".join(lines)]
                at = place % len(lines)
                lines[at] = hostile_folders.with_sign(lines[at], place, sign)
            except (ValueError, ZeroDivisionError):  # damaged already
                return
            text = "\n".join(lines) + "\n"
            hostile_folders.replace(file, lambda f: f.write_text(text))
            done["damages"] += 1

        @rule(use=st.sampled_from([*READERS, *WRITERS]))
        def use(self, use):
            said = hostile_folders.check(use, config, self.runs, self.root / "out")
            done["commands"] += 1
            done["refused in one line"] += bool(said)

    return RunFolders


def test_a_damaged_folder_ends_every_command_in_results_or_one_line(made, capsys):
    done, until = Counter(), time.time() + float(os.environ.get("FUZZ_SECONDS", "60"))
    try:
        while time.time() < until:
            run_state_machine_as_test(machine(made, done), settings=SETTINGS)
    finally:
        with capsys.disabled():
            sys.stdout.write(f"\nfuzzed run folders: {dict(done)}\n")
    assert done["commands"] > 10 and done["refused in one line"]
