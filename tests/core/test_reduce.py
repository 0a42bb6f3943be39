"""Sums over blocks: the same by threads, elsewhere, and from data that are read anew at every pass."""

import copy
import multiprocessing
import os
import pickle

import numpy as np
import pytest

from majorant import (
    LBFGS,
    BatchMajorization,
    Binary,
    Labelled,
    Multinomial,
    Newton,
    Objective,
    ProximalMajorization,
    QuasiNewton,
    StochasticMajorization,
    Threads,
    minimize,
)
from majorant.core.rows import Least, LocalBlocks, add
from majorant.data import Order
from majorant.objective import Reducer
from tests import problems
from tests.problems import InBlocks, every_problem


class Elsewhere(Reducer):
    """Blocks that only what can be pickled gets to."""

    def spread(self, data, rows):
        return Sent(pickle.loads(pickle.dumps(data.blocks(7))))


class Sent(LocalBlocks):
    def run(self, function, *kept, **how):
        return pickle.loads(pickle.dumps(super().run(pickle.loads(pickle.dumps(function)), *kept, **how)))


def everything(F, theta):
    """What solvers ask of an objective, as numbers."""
    point = F.point(theta)
    ray = F.ray(point, np.ones(F.size))
    found = [
        F.value(theta),
        F.value_at_zero(),
        point.value,
        *point.gradient,
        *F.bound(theta, "diagonal").curvature.as_matrix().ravel(),
        *ray.value_and_slope(0.3),
        *ray.point_at(0.3).gradient,
        F.certify(theta).gap,
        F.rounding(theta, point.value),
        float(F.separated(theta)),
    ]
    if F.model.has_rows:  # that of a chain is only like the diagonal, and not additive
        found += [*F.hessian_diagonal(point), *F.hessian(theta)[2].as_matrix().ravel()]
    return np.array(found)


@every_problem
@pytest.mark.parametrize("reducer", [Threads(2), Threads(5), InBlocks(7), Elsewhere()], ids=lambda r: type(r).__name__)
def test_sums_do_not_depend_on_who_adds(maker, reducer):
    here, there = problems.make(maker), problems.make(maker, reducer=reducer)
    theta = np.random.default_rng(0).normal(size=here.size)
    np.testing.assert_allclose(everything(there, theta), everything(here, theta), rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("reducer", [Threads(3), InBlocks(7), Elsewhere()], ids=lambda r: type(r).__name__)
@pytest.mark.parametrize("free", [True, False])
def test_whole_fits_do_not_either(reducer, free):
    rng = np.random.default_rng(0)
    data = Labelled(rng.normal(size=(90, 3)) + 5, rng.integers(0, 3, 90), constant=True, center=True)
    ridge = np.tile([1.0, 1.0, 1.0, 0.0 if free else 1.0], 3)
    for solver in (QuasiNewton(), QuasiNewton(curvature="diagonal"), Newton(), BatchMajorization(), LBFGS()):
        ours, theirs = (
            minimize(Objective(Multinomial(3), data, ridge=ridge, reducer=r), solver) for r in (reducer, Threads(1))
        )
        assert ours.result.converged
        np.testing.assert_allclose(ours.params, theirs.params, atol=1e-6)
        np.testing.assert_allclose(ours.trace["passes"], theirs.trace["passes"])


class Numbers:
    """Data of a kind."""

    whole = range(50)

    def __len__(self):
        return 50

    def blocks(self, rows):
        return range(50)


def test_threads_keep_the_order_and_pass_errors_on():
    blocks = Threads(4).spread(Numbers(), 1)
    total, kept = blocks.run(lambda block: (block, -block))
    assert total == sum(range(50))
    assert kept == [-k for k in range(50)]
    with pytest.raises(ZeroDivisionError):
        blocks.run(lambda block: (1 / (block - 30), None))
    with pytest.raises(ValueError, match="threads must be a whole number of at least 1, got 0"):
        Threads(0)


def test_sums_of_tuples_arrays_and_minima():
    first = np.ones(2)
    found = (2, np.full(2, 5.0), Least(-1.0), None)
    total = add((1, first, Least(3.0), None), found, in_place=False)
    assert total[0] == 3
    assert first.tolist() == [1.0, 1.0]  # that was somebody's
    assert total[1].tolist() == [6.0, 6.0]
    assert (total[2].value, total[3]) == (-1.0, None)
    assert add(total, found, in_place=True)[1] is total[1]


def threaded():
    rng = np.random.default_rng(0)
    return Objective(
        Binary(), Labelled(rng.normal(size=(50, 3)), rng.integers(0, 2, 50)), ridge=1.0, reducer=Threads(2)
    )


def test_objectives_travel_without_their_threads():
    F = threaded()
    value = F.value(np.ones(3))
    for copied in (pickle.loads(pickle.dumps(F)), copy.deepcopy(F)):
        assert copied.value(np.ones(3)) == value
    solution = minimize(F, QuasiNewton())
    again = pickle.loads(pickle.dumps(solution))
    assert minimize(F, QuasiNewton(), start=again).result.converged


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs processes that are forked")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_threads_are_made_anew_in_a_forked_process():
    F = threaded()
    F.value(np.ones(3))
    child = multiprocessing.get_context("fork").Process(target=F.value, args=(np.ones(3),))
    child.start()
    child.join(60)
    alive = child.is_alive()
    child.kill()
    assert not alive
    assert child.exitcode == 0


def test_overflow_is_found_where_it_matters_in_threads_too():
    F = threaded()
    huge = Objective(F.model, Labelled(1e155 * F.data.design.numbers, F.data.y), ridge=1.0, reducer=Threads(2))
    assert np.isfinite(minimize(huge, QuasiNewton(), max_steps=3).params).all()  # and warns of nothing


# --- data that are not in memory --------------------------------------------------------------------------


class FromFile:
    """Rows of two .npy files, read block by block whenever they are asked for."""

    whole = None

    def __init__(self, folder, X, y):
        self._folder, self.reads = folder, 0
        np.save(folder / "X.npy", X)
        np.save(folder / "y.npy", y)
        self.like = self._rows(slice(0, 20))

    def __len__(self):
        return len(np.load(self._folder / "y.npy", mmap_mode="r"))

    def _rows(self, rows):
        X, y = (np.load(self._folder / name, mmap_mode="r")[rows] for name in ("X.npy", "y.npy"))
        return Labelled(np.array(X), np.array(y), constant=True)

    def blocks(self, rows):
        return Blocks(self, min(rows, 512))

    outlines = blocks

    def sample(self, rows, seed):
        return self._rows(np.sort(np.random.default_rng(seed).permutation(len(self))[:rows]))

    def visits(self, order: Order, passes, begin, end, multiple):
        rows = order.of_pass(passes, len(self))[begin:end]
        return (self._rows(rows[start : start + 4 * multiple]) for start in range(0, len(rows), 4 * multiple))


class Blocks:
    def __init__(self, data, rows):
        self._data, self._rows = data, rows

    def __iter__(self):
        self._data.reads += 1
        return (self._data._rows(slice(k, k + self._rows)) for k in range(0, len(self._data), self._rows))


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize(
    "solver",
    [
        QuasiNewton(),
        QuasiNewton(curvature="kronecker"),
        QuasiNewton(curvature="diagonal"),
        BatchMajorization(),
        Newton(),
        LBFGS(),
        ProximalMajorization(),
    ],
    ids=lambda s: f"{type(s).__name__}-{getattr(s, 'curvature', '')}",
)
def test_data_on_disk_are_fitted_as_data_in_memory(solver, classes, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5000, 3)), rng.integers(0, classes, size=5000)
    model = Binary() if classes == 2 else Multinomial(3)
    ridge = np.tile([1.0, 1, 1, 0], model.coefficient_rows)
    data = FromFile(tmp_path, X, y)
    ours = minimize(Objective(model, data, ridge=ridge), solver, tol=1e-12)
    theirs = minimize(Objective(model, Labelled(X, y, constant=True), ridge=ridge), solver, tol=1e-12)
    assert ours.result.converged, ours.result
    assert data.reads > 2
    np.testing.assert_allclose(ours.params, theirs.params, atol=5e-6)  # as far as gaps of 1e-12 allow


def test_a_stream_from_disk_is_the_stream_from_memory(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 3, size=300)
    for solver in (StochasticMajorization(restart=True), ProximalMajorization(batch_size=7)):
        ours, theirs = (
            minimize(Objective(Multinomial(3), data, ridge=1.0), solver, max_passes=1, tol=0.0)
            for data in (FromFile(tmp_path, X, y), Labelled(X, y, constant=True))
        )
        np.testing.assert_allclose(ours.params, theirs.params, atol=1e-10)
