"""Every command where only the package and what it requires is installed."""

import json
import os
import subprocess
import sys

import pytest
from support.every import check_every
from support.runs import ROOT
from support.workdirs import folder

from jaxproto.cli import COMMANDS

SMALL = (
    "--config=local",
    "--config.data.clients=2",
    "--config.model.group=mlp",
    "--config.rounds=1",
)
PARTITION = "--config.data.partition=flwr:IidPartitioner"


@pytest.mark.long
@pytest.mark.landing
def test_every_command_works_or_names_its_extra_in_one_line(tmp_path):
    private = folder(tmp_path / "private", privacy__unit="client", privacy__noise=1.0)
    run, new = f"--workdir={tmp_path}/run", f"--workdir={tmp_path}/new"
    sweep = ("sweep", *SMALL, "--sweep=seed=0,1", f"--workdir={tmp_path}/sweep")
    cases = [  # arguments, and the extra that they need
        (("run", *SMALL, run), ""),
        *((("run", *SMALL, new, f"--writers={w}"), w) for w in ("wandb", "mlflow")),
        (("run", *SMALL, new, "--writers=tensorboard"), "tensorboard"),
        (("run", *SMALL, new, "--config.privacy.unit=client"), "privacy"),
        (("run", *SMALL, new, PARTITION), "flower-datasets"),
        (("flower", *SMALL, new), "flower"),
        (("flower", *SMALL, new, "--form=deployment"), "flower"),
        (("flower", *SMALL, new, "--form=process"), ""),
        (sweep, ""),
        ((*sweep, "--launcher=ray"), "cluster"),
        *(((name, *SMALL), "") for name in ("inspect", "cost", "disclosure")),
        (("leak", "prototypes", f"{tmp_path}/run"), "leakage"),
        (("audit", str(private)), "privacy"),
        (("compare", f"{tmp_path}/run"), ""),
        (("plot", "accuracy", f"{tmp_path}/run", f"--out={tmp_path}/a.png"), "plots"),
        (("report", f"{tmp_path}/run", f"--out={tmp_path}/a.html"), "report"),
        (("prepare", "mnist", f"--data_dir={tmp_path}"), "prepare"),
        (("list", "methods"), ""),
        (("new", "written_here"), ""),
        (("completion", "bash"), ""),
    ]
    assert {arguments[0] for arguments, _ in cases} == {*COMMANDS}
    here = {"PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests")))}
    ended = subprocess.run(
        [sys.executable, "-m", "support.no_extras"],
        input=json.dumps([arguments for arguments, _ in cases]),
        capture_output=True,
        text=True,
        env=os.environ | here,
        cwd=tmp_path,
    )
    assert not ended.returncode, ended.stderr
    results = json.loads(ended.stdout.splitlines()[-1])

    def check(arguments, extra, code, out):
        if not extra:
            assert not code, f"{code}\n{out}"
            return
        assert isinstance(code, str), out
        assert code.startswith("error: ") and "\n" not in code, code
        assert f"pip install 'jaxproto[{extra}]'" in code, code
        assert "Traceback" not in out

    check_every(
        [(*case, *got) for case, got in zip(cases, results, strict=True)], check
    )
