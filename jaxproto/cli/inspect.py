"""Shows what the data of a configuration look like, without training."""

from collections.abc import Sequence

from absl import flags

from jaxproto.cli import configured
from jaxproto.report import inspection
from jaxproto.storage import naming


def main(prog: str, arguments: Sequence[str]):
    """Prints who gets what, and draws the partition and examples."""
    out = flags.DEFINE_string("out", "", "default beside the work directory of the run")
    every = flags.DEFINE_bool("all", False, "nominal costs of every method")

    def show(config):
        run = naming.default(config, configured.plain())
        beside = run.with_name(f"{run.name}-inspect")
        inspection.show(config, out.value or beside, every.value)

    configured.start(show, prog, arguments, __doc__)
