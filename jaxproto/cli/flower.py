"""Runs a federation with Flower: a simulation, or a deployment on this machine.

`--form=process` runs it in one process without Flower, to try data and configuration.

A deployment is one SuperLink, and a SuperNode and processes of its own for each client,
on the loopback address, with TLS. The same command goes on after the last round.
"""

import importlib.util
from collections.abc import Sequence

from absl import flags

from jaxproto.cli import config_command
from jaxproto.errors import UserError

FORMS = ("simulation", "deployment", "process")


def main(prog: str, arguments: Sequence[str]):
    """Runs or resumes a federation; exit code 1 unless it finishes."""
    path = flags.DEFINE_string("workdir", "", "default as of a run, with -flower")
    form = flags.DEFINE_enum("form", FORMS[0], FORMS, ", ".join(FORMS))
    wait = flags.DEFINE_float("wait", 60.0, "seconds for all clients to come", 0.0)
    patience = flags.DEFINE_float("patience", 600.0, "seconds for an answer", 1.0)
    data = flags.DEFINE_list(
        "node_data", [], "with data.name=nodes: npz:, folder: or csv:PATH of each"
    )

    def show(config) -> bool:
        from jaxproto import flower
        from jaxproto.storage import default_workdir
        from jaxproto.storage.status import status_of

        named = default_workdir.resolve_workdir(config, config_command.plain_config())
        where = path.value or f"{named}-flower"
        if form.value == FORMS[2]:
            made = flower.rehearse(config, where, data.value)
            return not status_of(made).ok
        for package in ("flwr", "ray"):
            if importlib.util.find_spec(package) is None:
                raise UserError(
                    f"{package} is not installed: python -m pip install "
                    "'jaxproto[flower]'."
                )
        run = flower.simulate if form.value == FORMS[0] else flower.deploy
        times = {"wait": wait.value, "patience": patience.value}
        summary = run(config, where, data.value, **times)
        return not status_of(summary).ok

    config_command.run_command(show, prog, arguments, __doc__)
