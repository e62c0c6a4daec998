"""The agreement of server and nodes on an experiment."""

from support.refusal import refused
from support.runs import digits

from jaxproto.nodes.flower import protocol


def test_simulated_devices_are_refused():
    with refused("nodes are devices of their own"):
        protocol.experiment(digits(time__devices="lognormal"))
