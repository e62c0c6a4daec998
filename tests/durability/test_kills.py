"""A run that is killed at any call that writes ends as if it had never been killed.

Kills at system calls spread over the runs of five methods (`support/killing.py`), while
metrics, checkpoints, pictures and the cache of data are written: 100 in one process,
where the call and all later ones fail, and 20 with SIGKILL.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
@pytest.mark.parametrize(("how", "each"), [("here", 20), ("really", 4)])
def test_killed_at_a_call_a_run_goes_on_to_the_same_bits(tmp_path, how, each):
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    env = {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    env.pop("JAXPROTO_CACHE", None)  # the data are kept decoded, in a folder of theirs
    command = [sys.executable, ROOT / "tests/support/killing.py", how, tmp_path, each]
    end = subprocess.run([*map(str, command)], capture_output=True, text=True, env=env)
    assert end.returncode == 0, end.stderr
    found = json.loads(end.stdout.splitlines()[-1])
    sys.stdout.write(f"kills {how}: tried {found['tried']}, failed {found['failed']}\n")
    assert found == {"tried": 5 * each, "failed": {}}
