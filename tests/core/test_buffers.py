"""Memory that is used again belongs to one array at a time."""

import gc
import pickle

import numpy as np

from majorant import Binary, Labelled, LogisticRegression, Multinomial, Objective, QuasiNewton, minimize
from majorant.core.threads import LARGE, Spare, empty, recycling


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_is_used_again_once_nobody_has_it():
    shape = (2, LARGE)
    with recycling():
        first = empty(shape)
        where, part = address(first), first[1, 3:7]
        del first
        second = empty(shape)  # a part of the first is still in use
        assert address(second) != where
        part[:] = 5.0
        second[:] = 7.0
        assert part.tolist() == [5.0] * 4
        del part
        gc.collect()
        assert address(empty(shape)) == where
        assert empty(shape, np.float32).dtype == np.float32
        with recycling():  # of the same fit
            del second
            assert empty(shape).base is not None


def test_arrays_outlive_the_fit_they_were_made_in():
    with recycling():
        kept = empty((LARGE,))
        kept[:] = 3.0
    with recycling():
        others = [empty((LARGE,)) for _ in range(3)]
        for other in others:
            other[:] = 4.0
    assert (kept == 3.0).all()
    assert (pickle.loads(pickle.dumps(kept)) == 3.0).all()


def test_memory_can_be_kept_from_one_call_to_the_next():
    spare, places = Spare(), set()
    for _ in range(3):
        with recycling(spare):
            places.add(address(empty((LARGE,))))
    assert len(places) == 1


def test_points_of_a_run_stay_as_they_were():
    rng = np.random.default_rng(0)
    for model, n in ((Binary(), 2), (Multinomial(4), 4)):
        X, y = rng.normal(size=(40_000, 3)), rng.integers(0, n, 40_000)
        F = Objective(model, Labelled(X, y), ridge=1.0)
        solution = minimize(F, QuasiNewton(), max_steps=2)
        scores = [each.copy() for each in solution.state.point.scores]
        minimize(F, QuasiNewton(), start=rng.normal(size=F.size), max_steps=3)
        for now, then in zip(solution.state.point.scores, scores, strict=True):
            np.testing.assert_array_equal(now, then)


def test_fits_are_the_same_every_time():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40_000, 3)), rng.integers(0, 3, 40_000)
    one, other = (LogisticRegression(n_jobs=3).fit(X, y).coef_ for _ in range(2))
    np.testing.assert_array_equal(one, other)
