"""The command `sweep`."""

from support.commands import called
from support.runs import ROOT

from jaxproto.errors import UserError
from jaxproto.lab import sweeps
from jaxproto.training import debug


def test_a_sweep_takes_the_axes_of_its_file_or_of_the_flags(monkeypatch):
    monkeypatch.chdir(ROOT)
    seen = []

    def stop(c, axes, *_, **__):
        seen.append((c.name, axes))
        raise UserError("stopped")

    monkeypatch.setattr(sweeps, "sweep", stop)
    file = "--config=sweeps/protonorm_table4:digits"
    for more in ([], ["--sweep=seed=7"]):
        assert called("sweep", file, *more) == "error: stopped"
    of_file = {"seed": [0, 1, 2], "method.upscale": [1, 200, 400, 600, 800, 1000]}
    assert seen == [("protonorm_table4", axes) for axes in (of_file, ["seed=7"])]


def test_a_sweep_is_not_debugged(monkeypatch):
    given = []
    monkeypatch.setattr(debug, "debug", given.append)
    said = called("run", "--config=protonorm", "--debug", "--sweep=seed=0,1")
    assert "--debug is for one run" in said and not given
