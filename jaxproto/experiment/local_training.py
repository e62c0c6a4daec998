"""Builds local training from a configuration."""

from jaxproto.config import registries
from jaxproto.config.optimizers import build_optimizer, build_schedule
from jaxproto.core import batches
from jaxproto.round.client import LocalTraining


def build_local_training(config) -> LocalTraining:
    """Builds local training from a configuration that `config.check` has passed."""
    local = config.local
    short = registries.SHORT_CLIENT_POLICIES[local.short]
    return LocalTraining(
        opt=build_optimizer(config.optimizer),
        epochs=local.epochs,
        batch_size=local.batch_size,
        order=registries.ORDERS[local.order],
        steps_per_epoch=batches.at_most(local.max_batches, short),
        init_opt_state=registries.OPTIMIZER_STATES[local.optimizer_state],
        schedule=build_schedule(config.optimizer, config.rounds),
        init_key=registries.INIT_KEYS[config.model.init],
    )
