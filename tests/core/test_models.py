"""Models against enumeration, finite differences, each other, and scikit-learn's conventions."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

import majorant
from majorant import Binary, Choices, Enumerated, Labelled, Multinomial, Newton, Objective, minimize
from majorant.core import class_model
from majorant.core.class_model import ClassModel
from majorant.linear import multinomial
from majorant.models import Model
from tests import oracles, problems
from tests.problems import every_problem, every_row_problem


@every_problem
def test_value_equals_enumeration_and_gradient_finite_differences(maker):
    F = problems.make(maker)
    theta = np.random.default_rng(1).normal(size=F.size)
    sets = list(oracles.enumerate_sets(F.model, F.data))

    def slow(theta):
        return oracles.objective(theta, sets, F.ridge)

    value, gradient = F.value_and_gradient(theta)
    assert F.value(theta) == pytest.approx(slow(theta), rel=1e-12)
    assert value == pytest.approx(slow(theta), rel=1e-12)
    np.testing.assert_allclose(gradient, oracles.finite_difference(slow, theta), rtol=1e-5, atol=1e-6)


@every_row_problem
def test_hessian_equals_finite_differences_of_the_gradient(maker):
    F = problems.make(maker)
    theta = np.random.default_rng(1).normal(size=F.size)
    _, gradient, H = F.hessian(theta)
    np.testing.assert_allclose(gradient, F.value_and_gradient(theta)[1], atol=1e-11)
    numeric = oracles.finite_difference(lambda x: F.value_and_gradient(x)[1], theta)
    np.testing.assert_allclose(H.as_matrix() + np.diag(F.ridge), numeric, rtol=1e-5, atol=1e-6)
    assert not H.majorizes


@pytest.mark.parametrize("rows", [7, 40])
@pytest.mark.parametrize("seed", range(4))
def test_softmax_hessian_of_one_product_equals_that_of_class_matrices(seed, rows, monkeypatch):
    monkeypatch.setattr(multinomial, "CLASS_MATRICES", 200)  # some rows at a time
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    X, y, weight = rng.normal(size=(rows, p)), rng.integers(n, size=rows), rng.exponential(size=rows)
    data = Labelled(X.astype(np.float32) if seed == 3 else X, y, weight if seed % 2 else None, constant=True)
    scores = 10.0 ** rng.uniform(-1, 2) * rng.normal(size=(n, rows))  # some classes are nearly sure
    scores[0, y != 0] = -np.inf if seed == 2 else scores[0, y != 0]
    factors = Multinomial(n).hessian_factors(scores, data)
    H, expected = factors.matrix(), class_model.ClassFactors.matrix(factors)
    np.testing.assert_allclose(H, expected, atol=1e-13 * np.abs(expected).max())
    assert np.linalg.eigvalsh(H).min() >= -1e-14 * np.abs(H).max() * len(H)


@every_row_problem
def test_bound_curvature_equals_algorithm_1_row_by_row(maker):
    F = problems.make(maker)
    theta = np.random.default_rng(2).normal(size=F.size)
    expected = np.zeros((F.size, F.size))
    for features, log_h, _, weight in oracles.enumerate_sets(F.model, F.data):
        order = np.argsort(-(features @ theta + log_h), kind="stable")
        expected += weight * oracles.naive_bound(theta, features, log_h, order)[2]
    np.testing.assert_allclose(F.bound(theta).curvature.as_matrix(), expected, atol=1e-10)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(problems.MAKERS), st.integers(0, 10**6), st.floats(-2, 2))
def test_bound_lies_above_the_objective(maker, seed, log_distance):
    F = problems.make(maker, seed)
    rng = np.random.default_rng(seed)
    bound = F.bound(rng.normal(size=F.size))
    assert bound(bound.anchor) == pytest.approx(F.value(bound.anchor), rel=1e-12)
    for _ in range(10):
        theta = bound.anchor + 10**log_distance * rng.normal(size=F.size)
        assert bound(theta) >= F.value(theta) * (1 - 1e-12)


@every_row_problem
def test_the_flat_surface_is_the_same_model(maker):
    """What stochastic solvers use: Φθ are the potentials, targets make the residual, slices find the rows."""
    F = problems.make(maker)
    model, data, rng = F.model, F.data, np.random.default_rng(1)
    theta, matrix = rng.normal(size=F.size), rng.normal(size=(F.size, 3))
    Φ = model.score_rows(data)
    potentials = model.potentials(theta, data)
    np.testing.assert_allclose(Φ @ theta, potentials.ravel(), atol=1e-12)
    np.testing.assert_allclose(model.through(matrix, data), Φ @ matrix, atol=1e-12)
    _, residual = model.loss_and_residual(model.scores(theta, data), data)
    np.testing.assert_allclose(residual.ravel() @ Φ, model.lift(residual, data), atol=1e-11)
    scores, target = model.scores(theta, data).ravel(), model.targets(data)
    for j, at in enumerate(model.row_slices(data)):
        p = np.exp(scores[at] - np.logaddexp.reduce(scores[at]))
        p = 1 / (1 + np.exp(-scores[at])) if model.scores_per_row(data) == 1 else p
        weight = 1.0 if data.weight is None else data.weight[j]
        np.testing.assert_allclose(residual.ravel()[at], weight * (p - target[at]), atol=1e-12)


@every_row_problem
def test_taking_rows_is_repeating_and_reordering_them(maker):
    F = problems.make(maker)
    rows = np.random.default_rng(2).integers(len(F.data), size=2 * len(F.data))
    theta = np.random.default_rng(1).normal(size=F.size)
    apart = [Objective(F.model, F.data.take(np.array([j])), ridge=0.0).value(theta) for j in rows]
    together = Objective(F.model, F.data.take(rows), ridge=0.0).value(theta)
    assert together == pytest.approx(sum(apart), rel=1e-12)


@every_problem
@pytest.mark.parametrize("curvature", ["dense", "diagonal"])
def test_blocks_make_the_whole(maker, curvature):
    whole, parts = problems.make(maker), problems.make(maker, reducer=problems.InBlocks(7))
    theta = np.random.default_rng(3).normal(size=whole.size)
    one, many = whole.bound(theta, curvature), parts.bound(theta, curvature)
    assert many.value == pytest.approx(one.value, rel=1e-13)
    np.testing.assert_allclose(many.gradient, one.gradient, atol=1e-11)
    np.testing.assert_allclose(many.curvature.as_matrix(), one.curvature.as_matrix(), atol=1e-11)


def labelled_pair(rng, n):
    X, y = problems.design(rng), rng.integers(0, n, size=60)
    return X, y, rng.integers(0, 4, size=60)


@pytest.mark.parametrize("model", [Binary(), Multinomial(3)], ids=str)
def test_weights_are_repetitions(model):
    X, y, times = labelled_pair(np.random.default_rng(4), max(2, model.coefficient_rows))
    weighted = Objective(model, Labelled(X, y, weight=times), ridge=1.0)
    repeated = Objective(model, Labelled(np.repeat(X, times, axis=0), np.repeat(y, times)), ridge=1.0)
    same_objective(weighted, repeated)


def test_weights_are_repetitions_of_choices():
    rng = np.random.default_rng(5)
    sizes, times = rng.integers(1, 5, size=20), rng.integers(0, 3, size=20)
    sets = np.split(rng.normal(size=(sizes.sum(), 3)), np.cumsum(sizes)[:-1])
    chosen = rng.integers(0, sizes)
    again = [j for j, k in enumerate(times) for _ in range(k)]
    weighted = Choices(np.concatenate(sets), sizes, chosen, weight=times)
    repeated = Choices(np.concatenate([sets[j] for j in again]), sizes[again], chosen[again])
    same_objective(Objective(Enumerated(), weighted, ridge=1.0), Objective(Enumerated(), repeated, ridge=1.0))


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array, sp.csc_array, sp.coo_matrix])
@pytest.mark.parametrize("model", [Binary(), Multinomial(3)], ids=str)
def test_dense_equals_sparse(model, kind):
    X, y, weight = labelled_pair(np.random.default_rng(6), max(2, model.coefficient_rows))
    X *= np.random.default_rng(0).uniform(size=X.shape) < 0.2
    dense = Objective(model, Labelled(X, y, weight), ridge=1.0)
    same_objective(dense, Objective(model, Labelled(kind(X), y, weight), ridge=1.0))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("model", [Binary(), Multinomial(3)], ids=str)
def test_a_constant_column_need_not_be_stored(model, sparse):
    X, y, weight = labelled_pair(np.random.default_rng(15), max(2, model.coefficient_rows))
    X = X[:, :3]
    written_out = Objective(model, Labelled(np.column_stack([X, np.ones(60)]), y, weight), ridge=1.0)
    implied = Objective(model, Labelled(sp.csr_array(X) if sparse else X, y, weight, constant=True), ridge=1.0)
    same_objective(written_out, implied)
    same_objective(written_out, Objective(model, implied.data.take(np.arange(60)), ridge=1.0))
    for solver in (majorant.SGD(gain=0.01), majorant.ProximalMajorization(), majorant.StochasticMajorization()):
        a, b = (minimize(F, solver, max_passes=1).params for F in (written_out, implied))
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_unsorted_csr_with_duplicates_is_put_right_without_touching_the_callers():
    X = sp.csr_matrix((np.array([1.0, 2.0, 3.0]), np.array([1, 0, 1]), np.array([0, 3])), shape=(1, 2))
    data = Labelled(X, [1])
    assert data.design.toarray().tolist() == [[2.0, 4.0]]
    assert X.nnz == 3


@pytest.mark.parametrize("repeated", [False, True])
def test_many_unsorted_nonzeros_are_put_right_only_where_they_repeat(repeated):
    rng = np.random.default_rng(0)
    indices = np.concatenate([rng.permutation(50)[:40] for _ in range(500)])
    indices[40] = indices[41] if repeated else indices[40]
    X = sp.csr_matrix((rng.normal(size=20_000), indices, np.arange(501) * 40), shape=(500, 50))
    y, dense = rng.integers(2, size=500), X.toarray()
    unsorted, right = (Objective(Binary(), Labelled(each, y), ridge=1.0) for each in (X, dense))
    assert unsorted.data.design.numbers.nnz == 20_000 - repeated
    same_objective(unsorted, right)
    weights = rng.uniform(size=(1, 500))
    np.testing.assert_allclose(np.triu((dense.T * weights[0]) @ dense), unsorted.data.design.triangles(weights)[0])


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_sparse_columns_are_centred_only_where_they_are_far_from_zero(share):
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(1_000, 20)) * (rng.uniform(size=(1_000, 20)) < 0.05)
    X[: int(share * 1_000), 3] = 1.0
    X = sp.csr_array(X[rng.permutation(1_000)])
    centre = Labelled(X, np.arange(1_000) % 2, constant=True, center=True).centre
    assert (centre is not None) == (share > 0.5)
    assert centre is None or np.flatnonzero(centre).tolist() == [3]


@pytest.mark.parametrize("sparse", [False, True])
def test_float32_stays_float32_and_agrees(sparse):
    X, y, _ = labelled_pair(np.random.default_rng(7), 3)
    X = X.astype(np.float32)
    narrow = Objective(Multinomial(3), Labelled(sp.csr_array(X) if sparse else X, y), ridge=1.0)
    assert narrow.data.design.dtype == np.float32
    theta = np.full(12, 1 + 1e-12)  # not a float32: the product is one of float32 numbers
    assert narrow.model.potentials(theta, narrow.data).dtype == np.float64
    exact = narrow.model.potentials(np.ones(12), narrow.data)
    np.testing.assert_array_equal(narrow.model.potentials(theta, narrow.data), exact)
    wide = Objective(Multinomial(3), Labelled(X.astype(np.float64), y), ridge=1.0)
    same_objective(narrow, wide, tolerance=1e-4)


def test_multinomial_is_enumerated_with_kronecker_features():
    X, y, weight = labelled_pair(np.random.default_rng(8), 3)
    offset = np.random.default_rng(9).normal(size=(60, 3))
    compact = Objective(Multinomial(3), Labelled(X, y, weight, offset), ridge=0.5)
    features = np.concatenate([np.kron(np.eye(3), x) for x in X])
    written_out = Choices(features, np.full(60, 3), y, weight=weight, log_measure=offset.ravel())
    same_objective(compact, Objective(Enumerated(), written_out, ridge=0.5))


def test_one_row_and_two_row_binary_differ_by_the_factor_two():
    X, y, _ = labelled_pair(np.random.default_rng(10), 2)
    one = minimize(Objective(Binary(), Labelled(X, y), ridge=1.0), Newton(), tol=1e-12).params
    two = minimize(Objective(Multinomial(2), Labelled(X, y), ridge=2.0), Newton(), tol=1e-12).params.reshape(2, -1)
    np.testing.assert_allclose(two[1] - two[0], one, atol=1e-6)
    np.testing.assert_allclose(two[1], one / 2, atol=1e-6)


@pytest.mark.parametrize(("model", "n"), [(Binary(), 2), (Multinomial(3), 3)], ids=str)
def test_ridge_is_one_over_scikit_learns_c(model, n):
    from sklearn.linear_model import LogisticRegression

    X, y, weight = labelled_pair(np.random.default_rng(11), n)
    ours = minimize(Objective(model, Labelled(X, y, weight), ridge=0.25), Newton(), tol=1e-13).params
    theirs = LogisticRegression(C=4.0, fit_intercept=False, solver="newton-cholesky", tol=1e-10)
    theirs.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.reshape(theirs.coef_.shape), theirs.coef_, atol=1e-6)


def test_classes_sum_to_zero_along_the_path_from_zero():
    X, y, _ = labelled_pair(np.random.default_rng(12), 4)
    F = Objective(Multinomial(4), Labelled(X, y), ridge=0.1)
    theta = minimize(F, majorant.BatchMajorization(memory=0), max_steps=5).params
    np.testing.assert_allclose(theta.reshape(4, -1).sum(axis=0), 0, atol=1e-12)


def test_large_data_are_read_in_blocks(monkeypatch):
    X, y, _ = labelled_pair(np.random.default_rng(14), 3)
    monkeypatch.setattr("majorant.core.model.BLOCKS", 6)
    monkeypatch.setattr("majorant.core.model.LEAST_WORK", 1.0)
    monkeypatch.setattr("majorant.core.model.WORK_PER_PARAMETER", 0.0)
    F = Objective(Multinomial(3), Labelled(X, y), ridge=1.0)
    assert [len(scores[0]) for scores in F.point(np.zeros(F.size)).scores] == [10] * 6


def test_ranking_as_choices_from_shrinking_sets():
    """A Plackett–Luce ranking is the best of all, then the best of the rest, and so on."""
    rng = np.random.default_rng(13)
    items, taste = rng.normal(size=(50, 5, 2)), np.array([2.0, -1.0])
    ranking = np.argsort(-(items @ taste + rng.gumbel(size=(50, 5))), axis=1)
    ranked = np.take_along_axis(items, ranking[:, :, None], axis=1)
    stages = [each[k:] for each in ranked for k in range(4)]
    data = Choices(np.concatenate(stages), [len(s) for s in stages], chosen=[0] * len(stages))
    found = minimize(Objective(Enumerated(), data, ridge=1e-3)).params
    np.testing.assert_allclose(found, taste, atol=0.5)


def test_maximum_entropy_matches_the_expectations():
    F = problems.make(problems.maximum_entropy)
    data = F.data
    theta = minimize(Objective(Enumerated(), data, ridge=1e-9), Newton(), tol=1e-12).params
    features = data.design.dense()
    p = np.exp(features @ theta - oracles.log_partition(theta, features))
    np.testing.assert_allclose(p @ features, data.target @ features, atol=1e-6)


def same_objective(left, right, tolerance=1e-11):
    theta = np.random.default_rng(0).normal(size=left.size)
    for curvature in ("dense", "diagonal"):
        a, b = left.bound(theta, curvature), right.bound(theta, curvature)
        assert a.value == pytest.approx(b.value, rel=tolerance)
        scale = max(np.abs(b.gradient).max(), 1.0)
        np.testing.assert_allclose(a.gradient, b.gradient, atol=tolerance * scale)
        matrix = b.curvature.as_matrix()
        np.testing.assert_allclose(a.curvature.as_matrix(), matrix, atol=tolerance * np.abs(matrix).max())
    H = right.hessian(theta)[2].as_matrix()
    np.testing.assert_allclose(left.hessian(theta)[2].as_matrix(), H, atol=tolerance * np.abs(H).max())


def leaping_rows(n, kind, dtype, constant, center, weighted, seed=0, t=131, p=7):
    """A batch that compiled loops take, the scores somewhere, and a direction."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(t, p)) + 3 * rng.normal(size=p)) * (rng.random((t, p)) < 0.6)
    weight = rng.exponential(size=t) if weighted else None
    data = Labelled(kind(X.astype(dtype)), rng.integers(0, n, t), weight, constant=constant, center=center)
    model = Binary() if n == 2 else Multinomial(n)
    theta, direction = rng.normal(size=(2, model.n_parameters(data)))
    return model, data, model.scores(theta, data), direction


@pytest.fixture
def read_once(monkeypatch):
    """Let compiled loops read few rows, too."""
    monkeypatch.setattr("majorant.core.kernels.WORTH_COMPILING", 0)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("kind", [np.ascontiguousarray, sp.csr_array, sp.csr_matrix])
@pytest.mark.parametrize(("dtype", "close"), [(np.float64, 1e-12), (np.float32, 2e-5)])
@pytest.mark.parametrize(("constant", "center"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_whole_step_is_what_its_parts_make(n, kind, dtype, close, constant, center, weighted, read_once):
    model, data, scores, direction = leaping_rows(n, kind, dtype, constant, center, weighted)
    assert model.reads_once(data) or (n > 2 and kind is not np.ascontiguousarray)
    before = scores.copy()
    (loss, slope, gradient), kept = model.unit_step(direction, scores, data)
    expected, expected_kept = Model.unit_step(model, direction, scores, data)
    np.testing.assert_array_equal(scores, before)
    assert loss == pytest.approx(expected[0], rel=close)
    assert slope == pytest.approx(expected[1], rel=10 * close)
    np.testing.assert_allclose(gradient, expected[2], rtol=close, atol=100 * close)
    np.testing.assert_allclose(kept[0], expected_kept[0], rtol=close, atol=10 * close)
    np.testing.assert_allclose(kept[1], expected_kept[1], rtol=close, atol=10 * close)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("kind", [np.ascontiguousarray, sp.csr_array])
@pytest.mark.parametrize("offset", [False, True])
def test_a_look_is_what_its_parts_make(n, kind, offset, read_once):
    model, data, _, theta = leaping_rows(n, kind, np.float64, True, True, True)
    if offset:
        shape = (len(data),) if n == 2 else (len(data), n)
        logs = np.random.default_rng(1).normal(size=shape)
        data = Labelled(data.design.toarray()[:, :-1], data.y, data.weight, offset=logs, constant=True, center=True)
    (loss, gradient), scores = Model.evaluate(model, theta, data)
    (its_loss, its_gradient), its_scores = model.evaluate(theta, data)
    for found, right in ((its_loss, loss), (its_gradient, gradient), (its_scores, scores)):
        np.testing.assert_allclose(found, right, rtol=1e-11, atol=1e-10)


def test_rows_that_are_not_a_multiple_of_what_is_read_at_a_time_are_all_read(read_once):
    for t in (1, 63, 64, 65, 200):
        model, data, scores, direction = leaping_rows(3, np.ascontiguousarray, np.float64, True, False, False, t=t)
        found, _ = model.unit_step(direction, scores, data)
        expected, _ = Model.unit_step(model, direction, scores, data)
        assert found[0] == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(found[2], expected[2], rtol=1e-11, atol=1e-11)


def test_who_changes_the_loss_gets_whole_steps_of_that_loss():
    class Doubled(Binary):
        def loss_and_residual(self, scores, batch):
            loss, residual = super().loss_and_residual(scores, batch)
            return 2 * loss, 2 * residual

    _, data, scores, direction = leaping_rows(2, sp.csr_array, np.float64, True, False, False, t=5_000)
    doubled, once = (model.unit_step(direction, scores, data)[0] for model in (Doubled(), Binary()))
    assert doubled[0] == pytest.approx(2 * once[0])


@pytest.mark.parametrize("weighted", [False, True])
def test_a_loop_along_the_intercept_finds_what_arrays_do(weighted):
    rng, t = np.random.default_rng(0), 3_000
    weight = rng.exponential(size=t) * (rng.uniform(size=t) < 0.9) if weighted else None
    data = Labelled(rng.normal(size=(t, 2)), rng.integers(0, 2, size=t), weight=weight)
    scores, moved = 20 * rng.normal(size=(1, t)), np.array([0.3])
    found, residual = Binary().along_intercepts(scores, moved, data, curved=True)
    expected, theirs = ClassModel.along_intercepts(Binary(), scores, moved, data, curved=True)
    for ours, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, other, rtol=1e-12)
    np.testing.assert_allclose(residual, theirs, rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_variances_keep_their_digits_on_any_scale(weighted):
    rng, t = np.random.default_rng(0), 3_000
    weight = rng.exponential(size=t) if weighted else None
    data = Labelled(rng.normal(size=(t, 2)), rng.integers(0, 2, size=t), weight=weight)
    scores = 10.0 ** rng.uniform(-3, 2.5, size=(1, t)) * rng.choice([-1, 1], size=t)
    expected = expit(scores) * expit(-scores) * (1.0 if weight is None else weight)
    np.testing.assert_allclose(Binary().class_weights(scores, data), expected, rtol=1e-12)


def test_the_diagonal_of_sparse_outcomes_is_that_of_dense_ones():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 4)) * (rng.random((12, 4)) < 0.5)
    weight, model = np.array([1.0, 2.0, 0.5, 0.0]), majorant.Enumerated()
    dense = majorant.Choices(X, [2, 3, 4, 3], chosen=[0, 1, 2, 0], weight=weight)
    sparse = majorant.Choices(sp.csr_array(X), [2, 3, 4, 3], chosen=[0, 1, 2, 0], weight=weight)
    scores = rng.normal(size=12)
    found = model.hessian_diagonal(scores, sparse)
    np.testing.assert_allclose(found, model.hessian_diagonal(scores, dense), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rows", [4_000, 4_400, 7_900, 12_100])
def test_no_block_is_a_small_rest(rows):
    """What is left over is shared by all blocks, so that each is worth one."""
    data = Labelled(np.ones((rows, 120)), np.zeros(rows, dtype=int), constant=True)
    sizes = [len(block) for block in data.blocks(Binary().block_rows(data, rows))]
    assert sum(sizes) == rows
    assert min(sizes) > 0.9 * max(sizes)
