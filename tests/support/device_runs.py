"""Runs over eight virtual devices, as `on_devices.py` makes them in another process."""

import json
import subprocess
import sys

from support.runs import ROOT


def case(method, fields, *devices, **more):
    return {"method": method, "fields": fields, "devices": devices, **more}


def results(cases, folder):
    """Results of `support/on_devices.py`, which runs in a process of its own."""
    command = [sys.executable, "-m", "tests.support.on_devices", str(folder)]
    command.append(json.dumps(cases))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)
