"""Programs that were loaded from a folder and cannot be compiled are made anew."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import traced_function
from support.traced_function import cache

from jaxproto.training import program_trial

said = traced_function.said


REPACKED = """
import sys
from pathlib import Path
import jax
from jaxproto.training import compiler, exported_program, program_cache
from support.traced_function import assert_doubles, cache, double, flipped

folder, first, crashed, number = Path(sys.argv[1]), *map(int, sys.argv[2:])
def compiled(exp, examples, wrap):
    return double if wrap is program_cache.uncached else cache(folder)[0]
compiler._compile_all = compiled
for i in range(first, number):
    sys.stdout.write(f"{i}\\n")
    sys.stdout.flush()
    if i > first or not crashed:
        cache(folder)
        (file,) = (p for p in folder.iterdir() if p.suffix != ".trial")
        data = flipped(i / (number - 1))(file.read_bytes().partition(b"\\n")[2])
        head = exported_program.digest(file.name.encode(), data).encode()
        file.write_bytes(head + b"\\n" + data)  # damage under a right checksum
    assert_doubles(compiler.compile_all(None, None, program_cache.disk_cache))
    assert not [*folder.glob("*.trial")]
"""


@pytest.mark.long
def test_a_program_that_cannot_be_compiled_is_made_anew_whatever_its_checksum(tmp_path):
    """Also where the compiler crashes: then by the next start."""
    folders = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    env, number, i, code = {**os.environ, "PYTHONPATH": folders}, 12, 0, 0
    while i < number:
        command = [sys.executable, "-c", REPACKED, tmp_path, i, int(code < 0), number]
        options = {"capture_output": True, "text": True, "env": env}
        done = subprocess.run([*map(str, command)], **options)
        began = int(done.stdout.split()[-1])
        assert done.returncode == 0 or done.returncode < 0 <= code, done.stderr
        code, i = done.returncode, began if done.returncode else number


def test_a_program_of_which_a_process_died_is_made_anew(tmp_path, said):
    cache(tmp_path)
    (file,) = tmp_path.iterdir()
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
