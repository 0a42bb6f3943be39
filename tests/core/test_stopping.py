"""When a tight certificate is computed, and when predictions end a run."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan
from types import SimpleNamespace

import numpy as np
import pytest

from majorant import Binary, Labelled, Objective
from majorant.core.preconditioners import FREE, ROWS_PER_PARAMETER, Prices
from majorant.core.solver import State
from majorant.core.stopping import NEAR, OF_STEPS, SAFETY, SETTLES, Stopping
from majorant.objective import Point

TOL = 1e-6


@dataclass(frozen=True, eq=False)
class Predicting(State):
    """A state that predicts so much."""

    decrease: float = nan

    def predicted_decrease(self):
        return self.decrease


def objective(ridge, rows=40, columns=3):
    rng = np.random.default_rng(0)
    return Objective(Binary(), Labelled(rng.normal(size=(rows, columns)), rng.integers(0, 2, rows)), ridge=ridge)


def stopping(F, steps=0, tol=TOL, values=()):
    """Return the judge of a run after so many steps."""
    made = Stopping(F, tol, tol, 2_000, True)
    made.recall((tol, inf, inf, values, steps, False))
    return made


def due(made, F, decrease, *, value=1.0, gap=1.0, ends=False, unseen=0):
    """Return the share that is due at a state of so much F, which predicts so much."""
    made.given = Predicting(np.zeros(F.size), unseen=unseen, decrease=decrease)
    made.point = Point(np.zeros(F.size), value, np.ones(F.size))
    made._values, made._steps = (*made._values, value)[-3:], made._steps + 1 + unseen
    return made.share_due(gap, ends=ends)


def test_it_is_computed_where_four_times_the_predicted_decrease_is_within_the_tolerance():
    F = objective(1.0)
    assert due(stopping(F, 1_000), F, 1.01 * TOL / SAFETY) == 0
    assert due(stopping(F, 1_000), F, 0.99 * TOL / SAFETY) == 1
    assert due(stopping(F, 1_000), F, 0.99 * TOL / SAFETY, value=0.5) == 0  # relative to F


def test_it_costs_a_third_of_the_steps_at_most():
    F = objective(1.0)
    price = Prices.of(F).certificate() / Prices.of(F).step
    enough = int(np.ceil(price / OF_STEPS))
    assert due(stopping(F, enough - 2), F, 0.0) == 0
    assert due(stopping(F, enough - 1), F, 0.0) == 1
    assert due(stopping(F, enough - 2), F, 0.0, unseen=1) == 1


def test_it_is_computed_again_once_a_quarter_is_predicted():
    F = objective(1.0)
    made, first = stopping(F, 1_000), 0.9 * TOL / SAFETY
    assert [
        due(made, F, share * first) for share in (1.0, 0.9, 1.01 / SAFETY, 1 / SAFETY, 1 / SAFETY, 1 / SAFETY**2)
    ] == [
        1,
        0,
        0,
        1,
        0,
        1,
    ]


def test_what_no_solver_predicts_the_last_values_do():
    """Aitken's rule: decreases that shrink to a tenth each time leave a ninth of the last."""
    F = objective(1.0)
    for left, expected in ((0.9 * TOL / SAFETY, 1), (1.1 * TOL / SAFETY, 0)):
        made, last = stopping(F, 1_000), 9 * left
        due(made, F, nan, value=1.0 + 11 * last)
        due(made, F, nan, value=1.0 + last)
        assert due(made, F, nan) == expected


def test_a_run_that_begins_at_the_optimum_ends_there():
    F = objective(1.0)
    assert Prices.of(F).certificate() <= FREE * Prices.of(F).step
    assert due(stopping(F), F, nan, gap=0.9 * SETTLES * TOL) == 1
    assert due(stopping(F), F, nan, gap=1.1 * SETTLES * TOL) == 0


def test_without_a_penalty_the_first_is_computed_whatever_it_costs():
    F = objective(0.0)
    made = stopping(F)
    assert due(made, F, 0.9 * min(SETTLES * TOL, NEAR) / SAFETY) == 1  # Newton's steps will lead to the optimum
    assert due(made, F, 0.0) == 0
    assert due(made, F, 0.0, ends=True) == 1


def test_without_a_penalty_as_many_rows_are_taken_as_a_third_of_the_steps_pays_for():
    F = objective(0.0, 12_000, 300)
    few, more, all_rows = (due(stopping(F, steps), F, 0.0) for steps in (1, 50, 200))
    assert few == pytest.approx(ROWS_PER_PARAMETER * 300 / 12_000)
    assert few < more < all_rows == 1
    assert due(stopping(F, 1), F, 1.01 * few * TOL / SAFETY) == 0  # which certify less


def test_what_rounding_hides_is_not_computed_again():
    F = objective(0.0)
    made = stopping(F, 1_000)
    made._is_hidden = True
    assert due(made, F, 0.0, ends=True) == 0


def test_a_run_that_goes_on_knows_what_was_known():
    F = objective(1.0)
    one, other, another_tol = stopping(F, 1_000), stopping(F), stopping(F, tol=2 * TOL)
    assert due(one, F, 0.9 * TOL / SAFETY) == 1
    other.recall(one.memory)
    another_tol.recall(one.memory)
    assert [due(made, F, 0.5 * TOL / SAFETY) for made in (other, another_tol)] == [0, 1]


def test_two_predictions_in_a_row_end_a_run():
    def judge(decrease, made=None, unseen=0):
        made = Stopping(on_a_device, TOL, TOL, 2_000, True) if made is None else made
        made.given = made.state = Predicting(np.zeros(1), decrease=decrease, unseen=unseen)
        made.point = Point(made.given.theta, 1.0, np.ones(1))
        return made, made.is_estimated()

    on_a_device = SimpleNamespace(
        blocks=SimpleNamespace(estimates=True), size=2_001, penalty=SimpleNamespace(smooth=True, strong=True)
    )
    made, ends = judge(1e-9)
    assert not ends
    assert judge(5e-10, made)[1]
    assert made.estimate == pytest.approx(1e-9)  # of all steps to come
    assert judge(1e-9, unseen=2)[1]
