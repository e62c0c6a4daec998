"""Simulated time as a feature of a run."""

from jaxproto import plugins
from jaxproto.config.features import Feature
from jaxproto.config.field import NON_NEGATIVE, OFF, TRACED, Field, Names
from jaxproto.core.hyperparameters import POSITIVE, or_zero

HOME = "jaxproto.features.timing.devices"
DEVICES = Names([OFF, "lognormal", "file:PATH"], only=False)

# fmt: off
TIME = Feature(
    switch="time.devices",
    fields={
    "time.devices": Field("off", "simulated time: devices of the clients, drawn by data.seed or in a CSV file", DEVICES),
    "time.speed": Field(10.0, "median speed of a device in GFLOP/s (lognormal)", POSITIVE),
    "time.bandwidth": Field(10.0, "median bandwidth of a device in Mbit/s, in either direction (lognormal)", POSITIVE),
    "time.sigma": Field(1.0, "standard deviation of the logarithms of speeds and of bandwidths (lognormal)", NON_NEGATIVE),
    "time.by_network": Field(False, "faster devices have networks with more work per step"),
    "time.deadline": Field(0.0, "simulated seconds of a round after which an upload does not count; 0: none", NON_NEGATIVE, TRACED),
    "time.training": Field(0.0, "simulated seconds after which a client ends its local training, with at least one step; 0: never", NON_NEGATIVE, TRACED),
    "time.buffer": Field(0, "uploads with which the server ends an asynchronous round; 0: it waits for all participants", or_zero("synchronous")),
    },
    check=plugins.lazy(f"{HOME}:check_buffer"),
    arrays=plugins.lazy(f"{HOME}:floats_of"),
    wrap=plugins.lazy(f"{HOME}:with_time"),
    files=plugins.lazy(f"{HOME}:files"),
)
# fmt: on
