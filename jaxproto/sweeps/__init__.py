"""Sweeps: many federations that differ in fields of one configuration."""

from jaxproto.sweeps.axes import Axis, axes
from jaxproto.sweeps.execute import How
from jaxproto.sweeps.plan import Cell, Plan, plan
from jaxproto.sweeps.sweep import Result, sweep

__all__ = ["Axis", "Cell", "How", "Plan", "Result", "axes", "plan", "sweep"]
