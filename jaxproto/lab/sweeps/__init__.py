"""Sweeps: federations that differ in fields of one configuration."""

from jaxproto.lab.sweeps.axes import Axis, parse_axes
from jaxproto.lab.sweeps.execute import SweepOptions
from jaxproto.lab.sweeps.plan import Cell, Plan, plan
from jaxproto.lab.sweeps.sweep import SweepResult, sweep
