"""A disk that is full is one line, and the run goes on to the same bits afterwards."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """What runs said under limits of 0 to 6,000 bytes for a file, and what came after.

    The limit, RLIMIT_FSIZE, acts on root too, and in threads of C++.
    """
    folder = tmp_path_factory.mktemp("filled")
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    env = {**os.environ, "PYTHONPATH": path, "JAXPROTO_CACHE": "off"}
    command = [sys.executable, ROOT / "tests/support/filling.py", folder]
    end = subprocess.run(command, capture_output=True, text=True, env=env)
    assert end.returncode == 0 and end.stderr == "", end.stderr
    return folder, json.loads(end.stdout.splitlines()[-1])


@pytest.mark.long
def test_every_file_that_does_not_fit_is_named_with_its_size(filled):
    folder, found = filled
    names = [
        text.split()[2].removeprefix(f"{folder}/run/")
        for text in found["said"].values()
    ]
    assert len(names) == 7 and all("\n" not in text for text in found["said"].values())
    wanted = ["partition.csv:", "indices.csv:", "config.json:", "checkpoints/1:"]
    assert list(dict.fromkeys(names)) == wanted
    for text in found["said"].values():
        assert "File too large (" in text and " needed, " in text and " free)" in text
        assert "Make room there or choose another place" in text


@pytest.mark.long
def test_it_ends_with_the_same_bits_once_there_is_room_and_nothing_is_left(filled):
    assert filled[1]["same"] and filled[1]["left"] == []
