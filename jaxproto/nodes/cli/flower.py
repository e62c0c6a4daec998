"""Runs a federation with Flower: a simulation, or a deployment on this machine.

`--form=process` runs in one process without Flower, to try data and configuration. A
deployment has one SuperLink, and a SuperNode with its processes for each client, on
the loopback address with TLS. The same command resumes after the last saved round.
"""

import importlib.util
from collections.abc import Sequence

from absl import flags

from jaxproto.cli import config_command
from jaxproto.cli.run import SAME_CODE
from jaxproto.errors import UserError

FORMS = ("simulation", "deployment", "process")


def main(prog: str, arguments: Sequence[str]):
    """Runs or resumes a federation; exit code 1 unless it finishes."""
    path = flags.DEFINE_string("workdir", "", "default: that of `run`, with -flower")
    form = flags.DEFINE_enum("form", FORMS[0], FORMS, ", ".join(FORMS))
    wait = flags.DEFINE_float("wait", 60.0, "seconds to wait for all clients", 0.0)
    patience = flags.DEFINE_float("patience", 600.0, "seconds to wait for a reply", 1.0)
    about = "with data.name=nodes: npz:, folder: or csv:PATH of each node"
    data = flags.DEFINE_list("node_data", [], about)
    same_code = flags.DEFINE_bool("same_code", False, SAME_CODE)

    def execute(config) -> bool:
        from jaxproto.nodes import flower
        from jaxproto.storage.default_workdir import resolve_workdir
        from jaxproto.storage.status import status_of

        default = resolve_workdir(config, config_command.plain_config())
        workdir = path.value or f"{default}-flower"
        if form.value == "process":
            options = {"same_code": same_code.value}
            summary = flower.run_in_process(config, workdir, data.value, **options)
            return not status_of(summary).ok
        for package in ("flwr", "ray", "psutil", "cryptography"):
            if importlib.util.find_spec(package) is None:
                raise UserError(
                    f"{package} is not installed: python -m pip install "
                    "'jaxproto[flower]'."
                )
        from jaxproto.nodes.deployment.deployment import deploy

        run = flower.simulate if form.value == "simulation" else deploy
        times = {"wait": wait.value, "patience": patience.value}
        summary = run(config, workdir, data.value, same_code.value, **times)
        return not status_of(summary).ok

    config_command.run_command(execute, prog, arguments, __doc__)
