"""Check of a configuration with its data, method and networks, before compilation."""

import jax
import ml_collections

from jaxproto import config as configuration
from jaxproto.experiment import build


def check(config: ml_collections.ConfigDict | str):
    """Checks all that a run checks before it compiles; reads the data set.

    A run calls the same checks. Functions of your own method and networks are traced
    by shapes in the order of a round, so that an error names the function, the expected
    and the found shapes, and the line of your file.

    Args:
      config: Configuration, or the name of one such as "protonorm:digits".

    Raises:
      UserError: The run cannot work.
    """
    config = configuration.from_name(config)
    configuration.check(config)
    exp = build.experiment(config, jax.default_backend())
    build.check_experiment(exp, config.early_stopping.rule)
