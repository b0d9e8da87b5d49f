"""Products, exponentials and logarithms of arrays that are the same to the last bit on every processor.

numpy takes them from vector instructions and from a BLAS kernel that it picks by the processor. The last bit of a price
then differs between machines, and with it the cheapest of two nodes, so that a journal would be replayed with other
decisions. Here numpy only adds, multiplies and rounds, which IEEE 754 defines exactly.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# ln 2 in two parts: the first has its last 21 bits clear, so that its product with an exponent is exact.
_LN_2: Final = (6.93147180369123816490e-01, 1.90821492927058770002e-10)
# The Taylor series of exp to the 13th power is exact to 1e-17 for arguments of up to ln 2 / 2.
_SERIES: Final = tuple(1.0 / math.factorial(power) for power in range(13, -1, -1))
_LEAST: Final = -745.2  # exp is 0 below it.


def dot(rows: Array, vector: Array) -> Array:
    """Return the scalar product of each row [..., n] with the vector [n], as an array [...]."""
    products: Array = (rows * vector).sum(axis=-1)
    return products


def exp(values: Array) -> Array:
    """Return e to the power of each value, to 1 unit in the last place; 0 for minus infinity.

    Each value is k ln 2 + rest, with a rest of at most ln 2 / 2, whose series is then scaled by 2^k.
    """
    inside = np.maximum(values, _LEAST)
    power = np.rint(inside / math.log(2.0))
    rest = (inside - power * _LN_2[0]) - power * _LN_2[1]
    series = np.full_like(rest, _SERIES[0])
    for coefficient in _SERIES[1:]:
        series = series * rest + coefficient
    scaled: Array = np.where(values < _LEAST, 0.0, np.ldexp(series, power.astype(np.int64)))
    return scaled


def ln(values: Array) -> Array:
    """Return the natural logarithm of each value; minus infinity for 0."""
    found = [math.log(value) if value > 0 else -math.inf for value in values.ravel().tolist()]
    return np.array(found, dtype=float).reshape(values.shape)
