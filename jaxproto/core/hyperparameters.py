"""Declares hyper-parameters: ranges and annotations of arguments of factories."""

import dataclasses
import math
from typing import Annotated, Any, TypeGuard, TypeVar

import numpy as np

from jaxproto.core.types import Array, ArrayLike
from jaxproto.errors import UserError, shorten

STATIC = "static"  # Annotated[float, STATIC]: a float that is no argument of compiled
# programs, because a shape or a branch depends on it

T = TypeVar("T", bound=type)
ARGUMENT_GROUPS: set[Any] = set()


def argument_group(cls: T) -> T:
    """Makes the fields of a NamedTuple fields of configurations.

    A method's factory has such a tuple as the default of an argument.
    """
    ARGUMENT_GROUPS.add(cls)
    return cls


def is_concrete(value: float | ArrayLike) -> TypeGuard[float]:
    """Returns whether a number is a Python number, not a traced one."""
    return isinstance(value, int | float)


def is_zero(value: float | ArrayLike) -> bool:
    """Returns whether a number is known to be 0."""
    return is_concrete(value) and value == 0


@dataclasses.dataclass(frozen=True)
class Range:
    """Range of the numbers of a configuration field.

    `Annotated[float, Range("above 0", low=0, ends="(]")]` declares it with the field;
    `config.check` enforces it and `--print_config` shows it.
    """

    words: str  # continues "it must be"
    low: float = -math.inf
    high: float = math.inf
    ends: str = "[]"  # of the interval: "(" excludes `low`, ")" excludes `high`

    def fits(self, value: float) -> bool:
        """Returns whether a number is in the range; NaN never is."""
        low = self.low < value if self.ends[0] == "(" else self.low <= value
        high = value < self.high if self.ends[1] == ")" else value <= self.high
        return bool(low and high)

    def describe(self, kind: str) -> str:
        """Returns the type of the numbers and their range, in words."""
        return f"{kind}, {self.words}"

    def check(self, path: str, value: float):
        """Raises UserError unless a number is in the range.

        It must be in the range as a float32, too: compiled programs compute in float32.
        Data are partitioned in float64.
        """
        if not self.fits(value):
            raise UserError(f"{path} is {shorten(value)}; it must be {self.words}.")
        if isinstance(value, int) or path.startswith("data."):
            return
        with np.errstate(over="ignore"):
            single = float(np.float32(value))
        if not (self.fits(single) and math.isfinite(single)):
            raise UserError(
                f"{path} is {value}, which is {single} as a float32; it must be "
                f"{self.words}, and finite."
            )


MAX_INT = 2**31 - 1  # largest whole number in a compiled program
POSITIVE = Range("above 0", 0, ends="(]")
POSITIVE_SHARE = Range("above 0 and at most 1", 0, 1, "(]")
BELOW_ONE = Range("at least 0 and below 1", 0, 1, "[)")
COUNT = Range("at least 1 and below 2**31", 1, MAX_INT)
SEED = Range("from 0 to 2**32 - 1", 0, 2**32 - 1)
Real = float | Array  # an array where a compiled program takes it as an argument
NonNegative = Annotated[Real, Range("at least 0", 0)]
Positive = Annotated[Real, POSITIVE]
Share = Annotated[Real, Range("from 0 to 1", 0, 1)]
PositiveShare = Annotated[Real, POSITIVE_SHARE]
Momentum = Annotated[Real, BELOW_ONE]
Count = Annotated[int, COUNT]
UpToMillion = Annotated[int, Range("from 1 to 1,000,000", 1, 10**6)]
Seed = Annotated[int, SEED]


def check_argument(name: str, value: float | ArrayLike, kind):
    """Raises UserError for an argument of a factory outside of its range.

    Args:
      value: traced values pass.
      kind: the argument's annotation, such as `Share`.
    """
    allowed = next(m for m in kind.__metadata__ if isinstance(m, Range))
    if is_concrete(value):
        allowed.check(f"method.{name}", value)


def or_zero(meaning: str) -> Range:
    """Returns the range of a `Count` that may be 0, with a special meaning."""
    return Range(f"0 ({meaning}) or more, below 2**31", 0, MAX_INT)
