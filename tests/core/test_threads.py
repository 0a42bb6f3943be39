"""However many threads there are, a fit is the same; how many there are is what people and their programs say."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from majorant import Binary, ChainCRF, Labelled, LogisticRegression, Multinomial, Objective, Threads
from majorant.core.rows import WAITING, PairwiseSum
from majorant.core.threads import even_slices, for_each, mapped, numerics, sharing, threads
from majorant.estimators.base import WORTH_SHARING, fit_threads
from tests.chain.test_crf import sentences

COUNTS = (2, 3, 5)


def rows(kind, classes, t=40_000, p=12, seed=0):
    rng = np.random.default_rng(seed)
    X, W = rng.normal(size=(t, p)) + rng.normal(size=p), rng.normal(size=(classes, p))
    y = (X @ W.T + rng.gumbel(size=(t, classes))).argmax(axis=1)
    if kind == "csr":
        X = sp.csr_array(X * (rng.uniform(size=X.shape) < 0.2))
    return (X.astype(np.float32) if kind == "float32" else X), y


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("kind", ["float64", "float32", "csr"])
@pytest.mark.parametrize("solver", ["auto", "newton", "bbm"])
def test_coefficients_do_not_depend_on_threads(solver, kind, classes):
    X, y = rows(kind, classes)
    alone = LogisticRegression(n_jobs=1, solver=solver).fit(X, y)
    for count in COUNTS:
        shared = LogisticRegression(n_jobs=count, solver=solver).fit(X, y)
        np.testing.assert_array_equal(shared.coef_, alone.coef_)
        np.testing.assert_array_equal(shared.intercept_, alone.intercept_)
        assert shared.gap_ == alone.gap_


@pytest.mark.parametrize("classes", [2, 3])
def test_wide_matrices_of_curvature_do_not_depend_on_threads(classes):
    X, y = rows("float64", classes, t=2_000, p=520)
    alone, shared = (LogisticRegression(n_jobs=count, tol=1e-2).fit(X, y) for count in (1, 3))
    np.testing.assert_array_equal(shared.coef_, alone.coef_)


def test_there_are_blocks_to_share():
    """Otherwise the tests above would show nothing."""
    for kind, model in (("float64", Binary()), ("csr", Multinomial(4))):
        X, y = rows(kind, 2 if isinstance(model, Binary) else 4, t=100_000)
        F = Objective(model, Labelled(X, y), ridge=1.0)
        assert len(F.point(np.zeros(F.size)).scores) > 2


def test_chains_do_not_depend_on_threads():
    X, Y = sentences(300)
    alone = ChainCRF(n_jobs=1, max_iter=20).fit(X, Y).state_features_
    for count in COUNTS:
        shared = ChainCRF(n_jobs=count, max_iter=20).fit(X, Y).state_features_
        assert shared == alone


# --- how many ---------------------------------------------------------------------------------------------

PROGRAM = (
    "from majorant.estimators.base import fit_threads; import sklearn.linear_model; print(fit_threads(None, 10**9))"
)


def count_in_a_process(**environment):
    clean = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS") and k != "LOKY_MAX_CPU_COUNT"}
    program = [sys.executable, "-c", PROGRAM]
    return int(subprocess.run(program, env=clean | environment, capture_output=True, check=True, text=True).stdout)


def test_the_environment_says_how_many():
    assert count_in_a_process(OMP_NUM_THREADS="1") == 1
    assert count_in_a_process(LOKY_MAX_CPU_COUNT="1") == 1


def test_limits_and_jobs_say_how_many():
    with threadpool_limits(1):
        assert fit_threads(None, 10**9) == 1
        assert fit_threads(3, 10) == 3  # as asked
    with threadpool_limits(2):
        assert fit_threads(None, WORTH_SHARING - 1) == 1
        for backend in ("loky", "threading"):
            found = Parallel(n_jobs=2, backend=backend)(delayed(fit_threads)(None, 10**9) for _ in range(2))
            assert found == [1, 1]


# --- what they do -----------------------------------------------------------------------------------------


def test_work_is_shared_once():
    barrier, seen = threading.Barrier(3, timeout=30), []

    def work(item):
        if item < 3:
            barrier.wait()  # all three have begun
        seen.append((item, threads(), np.geterr()["over"]))

    with sharing(3):
        assert threads() == 3
        for_each(work, range(50))
    assert sorted(item for item, _, _ in seen) == list(range(50))
    assert {count for _, count, _ in seen} == {1, 3}  # who helps does not ask for help
    assert {over for _, _, over in seen} == {"ignore"}
    assert threads() == 1


def test_results_come_in_order_and_errors_are_passed_on():
    with sharing(4):
        assert mapped(lambda k: k**2, list(range(100))) == [k**2 for k in range(100)]
        done = []
        with pytest.raises(ZeroDivisionError):
            for_each(lambda k: done.append(1 / (k - 5)), range(10_000))
        assert len(done) < 10_000


def test_slices_cover_everything():
    for count in (1, 2, 7):
        with sharing(count):
            for length in (0, 1, 5, 1000):
                slices = even_slices(length, 10)
                assert [k for some in slices for k in range(length)[some]] == list(range(length))


def test_blas_is_left_as_it_was():
    from majorant.core.threads import blas_threads

    with threadpool_limits(2, user_api="blas"), numerics(1):
        assert blas_threads() == 1


def test_a_sum_is_that_of_a_tree_whoever_adds():
    rng = np.random.default_rng(0)
    for count, numbers in ((1, 4), (2, 4), (3, 4), (7, 4), (32, 4), (33, 4), (7, WAITING // 3), (3, WAITING + 1)):
        terms = rng.normal(size=(count, numbers)) * 10.0 ** rng.integers(-9, 9, size=(count, 1))
        totals, given = [], terms.copy()
        for order in (np.arange(count), rng.permutation(count), np.arange(count)[::-1]):
            total = PairwiseSum()
            for number in order:
                total.add(int(number), terms[number])
            totals.append(total.value())
        for other in totals[1:]:
            np.testing.assert_array_equal(totals[0], other)
        np.testing.assert_array_equal(terms, given)  # what is not ours is left alone
        np.testing.assert_allclose(totals[0], terms.sum(axis=0), rtol=1e-13, atol=1e-13 * np.abs(terms).max())


def test_threads_of_one_objective_add_to_the_same_bits():
    rng = np.random.default_rng(0)
    data = Labelled(rng.normal(size=(100_000, 4)), rng.integers(0, 2, 100_000))
    theta = rng.normal(size=4)
    found = [Objective(Binary(), data, ridge=1.0, reducer=Threads(k)).point(theta) for k in (1, 2, 5)]
    for other in found[1:]:
        assert other.value == found[0].value
        np.testing.assert_array_equal(other.gradient, found[0].gradient)
