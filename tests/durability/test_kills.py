"""A run that is killed at any call that writes ends as if it had never been killed.

Kills at system calls spread over the runs of five methods (`support/killing.py`), while
metrics, checkpoints, pictures and the cache of data are written: 100 in one process,
where the call and all later ones fail, and 20 with SIGKILL. A full disk is one line of
error, and the run goes on afterwards.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.long


def said(script, *arguments, **changes):
    """A script of support/ in a process of its own: JSON in its last line, errors."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    env = {**os.environ, "PYTHONPATH": path, "JAXPROTO_CACHE": "off", **changes}
    command = [sys.executable, ROOT / "tests" / "support" / script, *arguments]
    end = subprocess.run([*map(str, command)], capture_output=True, text=True, env=env)
    assert end.returncode == 0, end.stderr
    return json.loads(end.stdout.splitlines()[-1]), end.stderr


@pytest.mark.parametrize(("how", "each"), [("here", 20), ("really", 4)])
def test_killed_at_a_call_a_run_goes_on_to_the_same_bits(tmp_path, how, each):
    data = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "JAXPROTO_CACHE": ""}
    found, _ = said("killing.py", how, tmp_path, each, **data)  # they are kept decoded
    sys.stdout.write(f"kills {how}: tried {found['tried']}, failed {found['failed']}\n")
    assert found == {"tried": 5 * each, "failed": {}}


@pytest.mark.landing
def test_random_lives_end_with_the_bits_of_undisturbed_runs(tmp_path):
    """For `FUZZ_SECONDS`; `support/lives.py` repeats a life by its seed."""
    seed = int(time.time() / 86400) * 1000  # others every day
    seconds = os.environ.get("FUZZ_SECONDS", "30")
    found, _ = said("lives.py", tmp_path, seconds, seed)
    sys.stdout.write(f"lives: {found}\n")
    assert found["lives"] and found["failed"] == {}


def test_files_that_do_not_fit_are_named_and_with_room_the_run_ends_with_the_same_bits(
    tmp_path,
):
    """Limits of 0 to 6,000 bytes for a file, which act on root and on C++ too."""
    found, errors = said("filling.py", tmp_path)
    texts = found["said"].values()
    names = [text.split()[2].removeprefix(f"{tmp_path}/run/") for text in texts]
    assert len(names) == 7 and all("\n" not in text for text in texts)
    wanted = ["partition.csv:", "indices.csv:", "config.json:", "checkpoints/1:"]
    assert list(dict.fromkeys(names)) == wanted
    for text in texts:
        assert "File too large (" in text and " needed, " in text and " free)" in text
        assert "Make room there or choose another place" in text
    assert found["same"] and found["left"] == [] and errors == ""
