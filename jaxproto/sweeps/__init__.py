"""Sweeps: federations that differ in fields of one configuration."""

from jaxproto.sweeps.axes import Axis, parse_axes
from jaxproto.sweeps.execute import SweepOptions
from jaxproto.sweeps.plan import Cell, Plan, plan
from jaxproto.sweeps.sweep import SweepResult, sweep
