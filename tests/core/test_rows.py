"""Rows in registers against NumPy, for every width that is laid out differently."""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
import pytest

from majorant.chain.kernels import rows
from majorant.chain.kernels import rows as optional
from majorant.chain.kernels import rows as row_loops
from majorant.chain.kernels import rows as row_products

every_row = pytest.mark.parametrize(
    ("dtype", "blocks"), [(np.float32, 1), (np.float32, 3), (np.float64, 1), (np.float64, 7), (np.float32, 14)]
)


@numba.njit
def arithmetic(A, B, out, width):
    many = len(A)
    A, B, out = rows.bare((A, B, out), width)
    for t in range(many):
        a, b = A[t], B[t]
        out[t] = (a + b) * a - b / (a * a + 1.0) + 2.0 * b


@numba.njit
def functions(A, exponentials, logarithms, sums, tops, width):
    many = len(A)
    A, exponentials, logarithms = rows.bare((A, exponentials, logarithms), width)
    for t in range(many):
        a = A[t]
        exponentials[t] = rows.exp(a)
        logarithms[t] = rows.log(rows.exp(a))
        sums[t], tops[t] = rows.total(a), rows.largest(a)


@numba.njit
def products(A, T, out, X, width):
    many = len(A)
    A, T, out, X = rows.bare((A, T, out, X), width)
    for t in range(many):
        out[t] = row_products.times(A, t, T)
    row_products.add_products(A, A, 1, many - 1, X)


@numba.njit
def choices(A, M, out, width):
    many = len(A)
    A, M, out = rows.bare((A, M, out), width)
    for t in range(many):
        out[t] = rows.chosen(A[t], M, t) + rows.zeros(A)


@numba.njit
def loops(A, B, X, T, codes, v, width):
    many, bits = len(codes), codes[0]
    A, B, X, T, codes, v = rows.bare((A, B, X, T, codes, v), width)
    row_loops.fetch_rows(A, 1, 3)
    row_loops.fetch_places(v, codes, 1, many, bits)
    row_loops.add_rows(A, 2, 5, B, -0.5)
    row_loops.scale_rows(A, 4, 3.0)
    row_loops.transpose(T, X)
    row_loops.add_square_products(X, T, T)
    row_loops.clear_rows(B, 2)


@numba.njit
def given(A, values, ridges, out, sums, width):
    many = len(A)
    A, values, ridges, out = rows.bare((A, values, ridges, out), width)
    for t in range(many):
        out[t] = optional.scaled_by_row(optional.scaled(A[t], values, t), ridges, t)
        sums[t] = optional.scaled(A[t, 0], values, t) + optional.value_of(values, t)


class Several(NamedTuple):
    """What kernels take together."""

    matrix: Any
    vector: Any
    absent: Any
    number: Any


@numba.njit
def numbers(several, signed, out, width):
    """Read and write single numbers by indices of every kind, from the second row on."""
    bare = rows.bare(several, width)
    A, v = rows.from_row(bare.matrix, 1), bare.vector
    for t in range(len(several.matrix) - 1):
        A[t, 0] += v[signed[t]] * bare.number
        A[t, signed[t]] = A[t, 0] + rows.breadth(A)
        v[signed[t]] = t
    out[0] = A[0, 0] if bare.absent is None else 0.0


def matrices(dtype, blocks, seed=0, scale=1.0):
    rng = np.random.default_rng(seed)
    return [(scale * rng.normal(size=(m, 8 * blocks))).astype(dtype) for m in (9, 9, 8 * blocks)]


def close(found, expected, digits=8):
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=digits * np.finfo(np.asarray(found).dtype).eps, atol=1e-30)


@every_row
def test_arithmetic_is_that_of_arrays(dtype, blocks):
    A, B, _ = matrices(dtype, blocks)
    out = np.empty_like(A)
    arithmetic(A, B, out, (0,) * blocks)
    np.testing.assert_allclose(out, (A + B) * A - B / (A * A + 1) + 2 * B, atol=20 * np.finfo(dtype).eps)


@every_row
def test_exponentials_logarithms_and_reductions(dtype, blocks):
    A = matrices(dtype, blocks, scale=12.0)[0]
    A[0] = 0.0
    exponentials, logarithms, sums, tops = np.empty_like(A), np.empty_like(A), np.empty(9, dtype), np.empty(9, dtype)
    functions(A, exponentials, logarithms, sums, tops, (0,) * blocks)
    wide = A.astype(np.longdouble)
    close(exponentials, np.exp(wide).astype(dtype))
    np.testing.assert_allclose(
        logarithms, np.log(exponentials.astype(np.longdouble)), rtol=8 * np.finfo(dtype).eps, atol=1e-15
    )
    np.testing.assert_allclose(sums, A.sum(axis=1), atol=1e3 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(tops, A.max(axis=1))


@pytest.mark.parametrize(("dtype", "lowest"), [(np.float32, -87.0), (np.float64, -708.0)])
def test_what_is_too_small_is_the_least_or_nothing_and_what_is_no_number_stays_none(dtype, lowest):
    A = np.array([[-np.inf, -1e30, 2 * lowest, lowest, np.nan, 0.0, -0.0, 80.0]], dtype)
    exponentials, logarithms, sums, tops = np.empty_like(A), np.empty_like(A), np.empty(1, dtype), np.empty(1, dtype)
    functions(A, exponentials, logarithms, sums, tops, (0,))
    assert (exponentials[0, :3] == (exponentials[0, 3] if dtype == np.float32 else 0.0)).all()
    assert 0 < exponentials[0, 3] < 1e-37
    assert np.isnan(exponentials[0, 4])
    close(exponentials[0, 5:], np.exp([0.0, 0.0, 80.0]).astype(dtype), 100)


@every_row
def test_products_with_matrices(dtype, blocks):
    A, _, T = matrices(dtype, blocks)
    out, X = np.empty_like(A), np.ones_like(T)
    products(A, T, out, X, (0,) * blocks)
    loose = 100 * np.finfo(dtype).eps
    np.testing.assert_allclose(out, A @ T, atol=loose * blocks)
    np.testing.assert_allclose(X, 1 + A[1:-1].T @ A[2:], atol=loose)


@pytest.mark.parametrize(("dtype", "blocks"), [(np.float32, 1), (np.float32, 3), (np.float64, 2)])
def test_places_are_chosen_by_bits(dtype, blocks):
    rng = np.random.default_rng(0)
    A, there = rng.normal(size=(5, 8 * blocks)).astype(dtype), rng.random((5, 8 * blocks)) < 0.5
    out = np.full_like(A, np.nan)
    choices(A, np.packbits(there, axis=1, bitorder="little"), out, (0,) * blocks)
    np.testing.assert_array_equal(out, np.where(there, A, 0))


@every_row
def test_loops_over_rows_are_those_of_arrays(dtype, blocks):
    A, B, T = matrices(dtype, blocks)
    after, codes, v = A.copy(), np.array([1, 6, 3, 8], dtype=np.uint32), np.arange(5, dtype=dtype)
    after[2:7] -= 0.5 * B[:5]
    after[:4] *= 3
    X, cleared = np.empty_like(T), B.copy()
    loops(A, cleared, X, T, codes, v, (0,) * blocks)
    eps = np.finfo(dtype).eps  # of sums that nearly cancel, digits are lost
    np.testing.assert_allclose(A, after, rtol=8 * eps, atol=8 * eps)
    np.testing.assert_allclose(X, T.T + T * T, rtol=8 * eps, atol=8 * eps)
    assert not cleared[:2].any()
    np.testing.assert_array_equal(cleared[2:], B[2:])


@every_row
@pytest.mark.parametrize("strided", [False, True])
def test_what_is_left_out_is_one(dtype, blocks, strided):
    A, ridges, _ = matrices(dtype, blocks)
    values = np.arange(1.0, 19.0)[::2] if strided else np.arange(1.0, 10.0)
    out, sums = np.empty_like(A), np.empty(len(A))
    given(A, values, ridges, out, sums, (0,) * blocks)
    close(out, A * values[:, None].astype(dtype) * ridges)
    close(sums, A[:, 0] * values.astype(dtype) + values, digits=2.0**30 if dtype == np.float32 else 8)
    given(A, None, None, out, sums, (0,) * blocks)
    np.testing.assert_array_equal(out, A)
    close(sums, A[:, 0].astype(np.float64) + 1)


@every_row
@pytest.mark.parametrize("index", [np.int32, np.uint32, np.int64])
def test_numbers_are_read_and_written_where_arrays_have_them(dtype, blocks, index):
    A, signed, v = matrices(dtype, blocks)[0], np.arange(1, 9).astype(index) % 8, np.arange(2.0, 10.0)
    after, w, out = A.copy(), v.copy(), np.empty(1)
    for t in range(8):
        after[t + 1, 0] += w[signed[t]] * 3.0
        after[t + 1, signed[t]] = after[t + 1, 0] + 8 * blocks
        w[signed[t]] = t
    numbers(Several(A, v, None, 3.0), signed, out, (0,) * blocks)
    close(A, after)
    np.testing.assert_array_equal(v, w)
    assert out[0] == A[1, 0]
