"""exp and log1p as arithmetic alone, compiled by Numba: loops over them are vectorised, which calls of libm are not."""

from __future__ import annotations

import numpy as np

from majorant.kernels.compiler import compile_exact

# ln 2 = LN2 + LN2_REST, with zeros at the end of LN2: its products with exponents are exact.
LN2, LN2_REST = 6.93147180369123816490e-01, 1.90821492927058770002e-10
LOG2_E = 1.4426950408889634
# Added to a number below 2^51 it leaves the nearest whole number, in the last bits.
ROUND = 1.5 * 2.0**52
# exp of less is taken for 0.
LEAST = -708.0


@compile_exact
def exp_of_negative(x: float) -> float:
    """Return exp(x) for x ≤ 0, to about one unit in the last place: 2^k exp(r), |r| ≤ ½ ln 2, by Taylor's series."""
    y = x if x > LEAST else LEAST
    shifted = y * LOG2_E + ROUND
    k = shifted - ROUND
    r = (y - k * LN2) - k * LN2_REST
    p = 1.0 / 6227020800.0
    p = p * r + 1.0 / 479001600.0
    p = p * r + 1.0 / 39916800.0
    p = p * r + 1.0 / 3628800.0
    p = p * r + 1.0 / 362880.0
    p = p * r + 1.0 / 40320.0
    p = p * r + 1.0 / 5040.0
    p = p * r + 1.0 / 720.0
    p = p * r + 1.0 / 120.0
    p = p * r + 1.0 / 24.0
    p = p * r + 1.0 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    two_to_the_k = np.int64((np.float64(shifted).view(np.int64) + 1023) << 52).view(np.float64)
    if x > LEAST:
        return p * two_to_the_k
    return 0.0 if x == x else x


@compile_exact
def log1p_to_one(e: float) -> float:
    """Return log(1 + e) for 0 ≤ e ≤ 1, to a few units in the last place: 2 artanh(e / (2 + e)), by Taylor's series."""
    s = e / (2.0 + e)
    q = s * s
    p = 1.0 / 33.0
    p = p * q + 1.0 / 31.0
    p = p * q + 1.0 / 29.0
    p = p * q + 1.0 / 27.0
    p = p * q + 1.0 / 25.0
    p = p * q + 1.0 / 23.0
    p = p * q + 1.0 / 21.0
    p = p * q + 1.0 / 19.0
    p = p * q + 1.0 / 17.0
    p = p * q + 1.0 / 15.0
    p = p * q + 1.0 / 13.0
    p = p * q + 1.0 / 11.0
    p = p * q + 1.0 / 9.0
    p = p * q + 1.0 / 7.0
    p = p * q + 1.0 / 5.0
    p = p * q + 1.0 / 3.0
    return 2.0 * (s + s * q * p)
