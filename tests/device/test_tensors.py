"""Rows that are PyTorch tensors: the same fits as of arrays, wherever the tensors are."""

import sys

import numpy as np
import pytest

from majorant import (
    Labelled,
    LogisticRegression,
    LogisticRegressionCV,
    Multinomial,
    Objective,
    QuasiNewton,
    logistic_regression_path,
    on_device,
)
from majorant.core.policy import QuasiNewtonState

torch = pytest.importorskip("torch", reason="PyTorch is not installed: pip install majorant[torch]")
TensorDesign = pytest.importorskip("majorant.device.matrix").TensorDesign

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
# How far coefficients of a fit in the precision of the features may be from those in double precision.
CLOSE = {torch.float64: 1e-5, torch.float32: 3e-3, torch.float16: 3e-3, torch.bfloat16: 3e-3}


@pytest.fixture(params=DEVICES)
def device(request):
    return torch.device(request.param)


def drawn(rows, columns, classes, seed=0, far=0.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, columns)) * np.exp(0.5 * rng.standard_normal(columns))
    y = (X @ rng.standard_normal((columns, classes)) / 2 + rng.gumbel(size=(rows, classes))).argmax(axis=1)
    return X + far, y


def distance(a, b):
    return np.abs(a - b).max() / np.abs(b).max()


@pytest.mark.parametrize("kind", list(CLOSE), ids=str)
@pytest.mark.parametrize(("rows", "columns", "classes"), [(300, 5, 2), (400, 7, 4), (3000, 12, 2)])
@pytest.mark.parametrize("far", [0.0, 5.0])
def test_fits_are_those_of_arrays(device, kind, rows, columns, classes, far):
    X, y = drawn(rows, columns, classes, far=far)
    X = torch.as_tensor(X).to(kind)
    model = LogisticRegression(tol=1e-12 if kind == torch.float64 else 1e-8)
    model.fit(X.to(device), torch.as_tensor(y, device=device))
    reference = LogisticRegression(tol=1e-12).fit(X.double().numpy(), y)
    assert isinstance(model.coef_, np.ndarray)
    assert distance(model.coef_, reference.coef_) < CLOSE[kind]
    assert distance(model.intercept_, reference.intercept_) < CLOSE[kind]
    assert model.gap_ <= 1e-6


@pytest.mark.parametrize("kind", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("far", [1e5, 1e6, 1e7, 1.7e9])
def test_columns_far_from_zero_are_measured_from_their_means(device, kind, classes, far):
    """Timestamps, say: products are of what is left, and so are their rounding errors."""
    X, y = drawn(500, 4, classes)
    X = torch.as_tensor(X * max(far / 1e7, 1.0) + far).to(kind)
    model = LogisticRegression().fit(X.to(device), y)
    reference = LogisticRegression(tol=1e-12).fit(X.double().numpy(), y)
    assert model.result_.converged
    assert model.gap_ <= 1e-6
    assert distance(model.coef_, reference.coef_) < 1e-3
    scores = model.decision_function(X.to(device)).cpu().numpy()
    assert distance(scores, reference.decision_function(X.double().numpy())) < 1e-3


@pytest.mark.parametrize("solver", ["auto", "newton", "lbfgs"])
@pytest.mark.parametrize("kind", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("constant", [0.1, 1 / 3, 1.0, 7.3, 1e5, -2.7e-3])
def test_a_constant_column_without_a_penalty_is_zero(device, solver, kind, constant):
    """Its mean is no number of the computer's, if it is a sum over rows: what is left of it would be rounding."""
    for rows, classes in ((200, 2), (3_000, 3), (3_000, 5)):
        r = np.random.default_rng(0)
        P = r.poisson(1.0, size=(rows, 4)).astype(float)
        y = np.argmax(P @ r.normal(size=(4, classes)) + r.gumbel(size=(rows, classes)), axis=1)
        X = torch.as_tensor(np.column_stack([P, np.full(rows, constant)]), dtype=kind, device=device)
        assert not TensorDesign.of(X).with_constant(None, center=True).toarray()[:, 4].any()
        model = LogisticRegression(C=np.inf, solver=solver).fit(X, y)
        reference = LogisticRegression(C=np.inf, solver=solver).fit(X.double().cpu().numpy(), y)
        assert model.result_.converged
        assert "column 4, which changes no probability" in str(model.result_)
        assert model.trace_["objective"][-1] == pytest.approx(reference.trace_["objective"][-1], rel=1e-4)


@pytest.mark.parametrize(("rows", "columns", "classes"), [(900, 60, 4), (16_000, 70, 2)])
def test_long_rows_are_no_work_for_loops_over_arrays(device, rows, columns, classes):
    X, y = drawn(rows, columns, classes)
    model = LogisticRegression().fit(torch.as_tensor(X, device=device), torch.as_tensor(y, device=device))
    reference = LogisticRegression().fit(X, y)
    assert distance(model.coef_, reference.coef_) < 1e-3
    assert model.gap_ <= 1e-6


@pytest.mark.parametrize(
    "settings", [{}, {"fit_intercept": False}, {"penalize_intercept": True}, {"C": np.inf}], ids=str
)
def test_settings_mean_the_same(device, settings):
    X, y = drawn(500, 6, 3)
    weight = np.random.default_rng(1).integers(0, 3, 500).astype(float)
    model = LogisticRegression(**settings).fit(torch.as_tensor(X).to(device), y, weight)
    reference = LogisticRegression(**settings).fit(X, y, weight)
    assert distance(model.coef_, reference.coef_) < 1e-6
    assert np.isclose(model.gap_, reference.gap_, atol=1e-8)
    assert model.coef_error_.shape == model.coef_.shape


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_solvers_that_ask_for_sums(device, solver):
    X, y = drawn(400, 6, 3)
    found = LogisticRegression(solver=solver).fit(torch.as_tensor(X).to(device), y)
    assert distance(found.coef_, LogisticRegression().fit(X, y).coef_) < 1e-4


@pytest.mark.parametrize("solver", ["bbm", "proximal", "sgd", "sbm"])
def test_solvers_that_look_into_rows_say_what_to_do(solver):
    X, y = drawn(100, 3, 3)
    with pytest.raises(ValueError, match="use 'auto'"):
        LogisticRegression(solver=solver, penalize_intercept=True).fit(torch.as_tensor(X), y)


def test_what_is_found_of_arrays_takes_tensors_too(device):
    from majorant import EarlyStopping

    X, y = drawn(300, 4, 3)
    there = torch.as_tensor(X).to(device)
    streams = [LogisticRegression().partial_fit(rows, y, classes=[0, 1, 2]) for rows in (there, X)]
    assert distance(streams[0].coef_, streams[1].coef_) < 1e-9
    stopped = LogisticRegression(callbacks=[EarlyStopping(there[:50], y[:50])]).fit(there[50:], y[50:])
    assert np.isfinite(stopped.coef_).all()
    free = LogisticRegression(C=np.inf).fit(there, y)
    assert str(free.summary(there, y)) == str(free.summary(X, y))
    assert free.posterior_covariance(there, y).shape == (15, 15)
    with pytest.raises(ValueError, match="posterior=True"):
        free.predict_proba(there, posterior=True)


def test_soft_labels_and_offsets(device):
    X, y = drawn(300, 5, 3)
    P = np.random.default_rng(2).dirichlet(np.ones(3), 300)
    offset = np.random.default_rng(3).standard_normal((300, 3))
    X_there = torch.as_tensor(X).to(device)
    soft = LogisticRegression().fit_soft(X_there, torch.as_tensor(P).to(device))
    assert distance(soft.coef_, LogisticRegression().fit_soft(X, P).coef_) < 1e-6
    moved = LogisticRegression().fit(X_there, y, offset=torch.as_tensor(offset).to(device))
    reference = LogisticRegression().fit(X, y, offset=offset)
    assert distance(moved.coef_, reference.coef_) < 1e-6
    scores = moved.decision_function(X_there, torch.as_tensor(offset).to(device))
    assert np.allclose(scores.cpu(), reference.decision_function(X, offset), atol=1e-5)


@pytest.mark.parametrize("classes", [2, 4])
def test_predictions_are_answered_in_kind(device, classes):
    X, y = drawn(200, 4, classes)
    there = torch.as_tensor(X).to(device)
    model = LogisticRegression().fit(there, y)
    for method in ("decision_function", "predict", "predict_proba", "predict_log_proba"):
        answer = getattr(model, method)(there)
        assert answer.device.type == device.type
        assert np.allclose(answer.cpu(), getattr(model, method)(X), atol=1e-5)
    assert model.score(there, torch.as_tensor(y).to(device)) == model.score(X, y)
    named = LogisticRegression().fit(there, np.array(list("abcd"))[y])
    assert named.predict(there).dtype.kind == "U"


def test_paths_and_cross_validation(device):
    X, y = drawn(400, 5, 3)
    there = torch.as_tensor(X).to(device)
    path, reference = (logistic_regression_path(rows, y, Cs=[0.01, 0.1, 1.0]) for rows in (there, X))
    assert distance(path.coefs, reference.coefs) < 1e-5
    found, expected = (LogisticRegressionCV(Cs=[0.01, 1.0], cv=3, scoring="neg_log_loss").fit(r, y) for r in (there, X))
    assert found.C_ == expected.C_
    assert np.isclose(found.score(there, y), expected.score(X, y), atol=1e-6)


def test_checkpoints_go_on(device, tmp_path):
    from majorant import Checkpoint

    X, y = drawn(300, 5, 3)
    there = torch.as_tensor(X).to(device)
    stopped = LogisticRegression(max_iter=1, callbacks=[Checkpoint(tmp_path / "m", every=1)])
    with pytest.warns(match="limit"):
        stopped.fit(there, y)
    model = LogisticRegression().fit(there, y, resume_from=tmp_path / "m")
    assert distance(model.coef_, LogisticRegression().fit(X, y).coef_) < 1e-6


def test_pairs_of_many_parameters_are_kept_on_the_device(device, tmp_path, monkeypatch):
    from majorant import Checkpoint
    from majorant.core import quasi_newton

    kept = []
    monkeypatch.setattr(quasi_newton, "MANY_PARAMETERS", 10)
    monkeypatch.setattr(quasi_newton, "FEW_PARAMETERS", 10)
    placed = quasi_newton.solutions
    X, y = drawn(2000, 30, 5)
    there = torch.as_tensor(X * np.exp(np.linspace(0, 3, 30))).float().to(device)
    expected = LogisticRegression(tol=1e-10).fit(there.double().cpu().numpy(), y)

    def solutions(solve, *of):
        kept.append(type(of[0]))
        return placed(solve, *of)

    monkeypatch.setattr(quasi_newton, "solutions", solutions)
    model = LogisticRegression(tol=1e-8).fit(there, y)
    assert torch.Tensor in kept
    assert distance(model.coef_, expected.coef_) < CLOSE[torch.float32]
    stopped = LogisticRegression(tol=1e-8, max_iter=4, callbacks=[Checkpoint(tmp_path / "m", every=1)])
    with pytest.warns(match="limit"):
        stopped.fit(there, y)
    resumed = LogisticRegression(tol=1e-8).fit(there, y, resume_from=tmp_path / "m")
    assert distance(resumed.coef_, expected.coef_) < CLOSE[torch.float32]
    path = logistic_regression_path(there, y, Cs=[0.01, 1.0])
    assert distance(path.coefs[-1], expected.coef_) < 0.02  # to its default tolerance


def test_a_curvature_on_a_device_is_that_of_arrays(device):
    from majorant.curvature import Kronecker
    from majorant.device.blocks import TensorKronecker

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 6))
    C, G = np.cov(rng.normal(size=(4, 9))), rows.T @ rows
    there = TensorKronecker(*(torch.as_tensor(each).to(device) for each in (C, G)))
    ridge = np.tile([0.3] * 5 + [0.0], 4)
    solve = there.nearly_factorized(ridge)
    inverse = np.column_stack([solve(unit) for unit in np.eye(24)])
    # Eigenvalues of C are rounded to levels, and where it has least their mean stands in.
    levels, basis = (each.cpu().numpy() for each in there.classes_there)
    rounded = Kronecker(basis * levels @ basis.T, G, majorizes=False).as_matrix()
    np.testing.assert_allclose(inverse @ (rounded + np.diag(ridge)), np.eye(24), atol=1e-8)
    assert np.abs(np.log2(levels[1:] / np.linalg.eigvalsh(C)[1:])).max() <= 0.13


def test_sums_make_the_curvature_of_arrays(device):
    from majorant.core.rows import LocalBlocks
    from majorant.device.blocks import DeviceBlocks

    rng = np.random.default_rng(1)
    rows = rng.normal(size=(30, 6))
    sums = np.cov(rng.normal(size=(4, 9))), 50 * rows.T @ rows
    of_arrays, there = LocalBlocks([]).kronecker(*sums), DeviceBlocks([], device).kronecker(*sums)
    for mine, theirs in zip(vars(there.as_written()).values(), vars(of_arrays).values(), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-12)


@pytest.mark.parametrize("curvature", ["auto", "diagonal", "kronecker"])
@pytest.mark.parametrize("classes", [2, 5])
def test_steps_may_stay_on_a_device(device, curvature, classes, monkeypatch):
    from majorant.device import blocks

    X, y = drawn(900, 7, classes)
    data = Labelled(on_device(torch.as_tensor(X), device), y, constant=True)
    ridge = np.tile([2.0] * 7 + [0.0], classes)
    found, kinds = [], set()
    for many in (10**9, 0):
        monkeypatch.setattr(blocks, "MANY", many)
        F = Objective(Multinomial(classes), data, ridge=ridge, reducer=blocks.OnDevice(device, classes))
        narrow, solver = F.narrowed(), QuasiNewton(curvature=curvature)
        zero = narrow.with_likely_intercept(np.zeros(F.size))
        state = QuasiNewtonState.at(narrow.point(zero), ridge=narrow.penalty.prior)
        for _ in range(12):
            state = solver.step(narrow, state)
            kinds.add((many, type(state.point.gradient)))
        found.append(solver._in_single_precision(narrow, state, 0, F))
    assert kinds == {(10**9, np.ndarray), (0, torch.Tensor)}
    assert isinstance(found[1].theta, np.ndarray)
    assert distance(found[1].theta, found[0].theta) < 1e-3
    assert found[1].point.value == pytest.approx(found[0].point.value, rel=1e-6)


def test_settings_of_pytorch_stay_as_they_are(device):
    X, y = drawn(100, 3, 3)
    there = torch.as_tensor(X).float().to(device).requires_grad_()
    before = (torch.get_default_dtype(), torch.get_float32_matmul_precision(), torch.initial_seed())
    grad, tf32 = torch.is_grad_enabled(), torch.backends.cuda.matmul.allow_tf32
    model = LogisticRegression().fit(there, y)
    assert not model.predict_proba(there).requires_grad
    assert before == (torch.get_default_dtype(), torch.get_float32_matmul_precision(), torch.initial_seed())
    assert (grad, tf32) == (torch.is_grad_enabled(), torch.backends.cuda.matmul.allow_tf32)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda X: X.long(), TypeError, "float32.*int64"),
        (lambda X: X.to("meta"), ValueError, "meta"),
        (lambda X: X[0], ValueError, "shape"),
        (lambda X: X[:0], ValueError, "not empty"),
        (lambda X: torch.cat([X[:5], X[:1] * torch.nan]), ValueError, "row 5"),
        (lambda X: (X * 1e6).half(), ValueError, "float16 ends at 65504"),
        (lambda X: X.to_sparse(), TypeError, "dense tensor"),
    ],
)
def test_bad_rows_are_refused(device, change, error, words):
    X, y = drawn(50, 3, 2)
    bad = change(torch.as_tensor(X).to(device))
    with pytest.raises(error, match=words):
        LogisticRegression().fit(bad, y[: len(bad)])


def test_labels_that_do_not_fit_are_refused(device):
    X, y = drawn(50, 3, 2)
    there = torch.as_tensor(X).to(device)
    for labels in (y[:40], None):
        with pytest.raises(ValueError, match="y must"):
            LogisticRegression().fit(there, labels)
    model = LogisticRegression().fit(there, y)
    with pytest.raises(ValueError, match="3 features"):
        model.predict(there[:, :2])


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.float16])
def test_rows_in_host_memory_stream_through_a_device(device, kind, tmp_path):
    X, y = drawn(300, 5, 3)
    np.save(tmp_path / "X.npy", X.astype(kind))
    rows = np.load(tmp_path / "X.npy", mmap_mode="r")
    model = LogisticRegression().fit(on_device(rows, device), y)
    assert distance(model.coef_, LogisticRegression().fit(X.astype(kind).astype(float), y).coef_) < 3e-3
    assert np.allclose(model.predict_proba(on_device(rows, device)).cpu(), model.predict_proba(rows), atol=1e-4)
    with pytest.raises(TypeError, match="floating-point"):
        on_device(y[:, None], device)
    with pytest.raises(ValueError, match="cannot be used"):
        on_device(rows, "nowhere")


def test_separation_is_named(device):
    X, y = torch.tensor([[-2.0], [-1.0], [1.0], [2.0]], device=device), [0, 0, 1, 1]
    model = LogisticRegression(C=np.inf)
    with pytest.warns(match="separat"):
        model.fit(X, y)


def test_labels_may_be_tensors_where_rows_are_arrays(device):
    X, y = drawn(50, 3, 2)
    model = LogisticRegression().fit(X, torch.as_tensor(y, device=device))
    assert np.array_equal(model.coef_, LogisticRegression().fit(X, y).coef_)


def test_many_parameters_stop_at_an_estimate(device):
    X, y = drawn(3000, 40, 60)
    model = LogisticRegression(C=100.0, tol=1e-4).fit(torch.as_tensor(X).float().to(device), y)
    reference = LogisticRegression(C=100.0, tol=1e-9).fit(X, y)
    assert model.result_.converged
    assert model.trace_["objective"][-1] <= reference.trace_["objective"][-1] * (1 + 1e-4)


def test_memory_that_is_too_small_is_named(device, monkeypatch):
    def too_much(*_, **__):
        raise torch.OutOfMemoryError("no more")

    monkeypatch.setattr("majorant.core.rows.LocalBlocks.run", too_much)
    X, y = drawn(50, 3, 2)
    with pytest.raises(MemoryError, match="GiB free"):
        LogisticRegression().fit(torch.as_tensor(X).to(device), y)


def test_pytorch_is_imported_by_who_brings_a_tensor():
    import subprocess

    fit = "import majorant, sys; majorant.LogisticRegression().fit([[0.0], [1.0]], [0, 1])"
    subprocess.run([sys.executable, "-c", f"{fit}; assert 'torch' not in sys.modules"], check=True)


def test_a_device_that_is_lost_is_named(device, monkeypatch):
    from majorant.core.rows import LocalBlocks

    def lost(self, function, *kept, **how):
        raise RuntimeError("CUDA error: unspecified launch failure\nCompile with TORCH_USE_CUDA_DSA")

    X, y = drawn(100, 3, 2)
    monkeypatch.setattr(LocalBlocks, "run", lost)
    with pytest.raises(RuntimeError, match=r"in the middle of a fit \(CUDA error: unspecified.*resume_from"):
        LogisticRegression().fit(torch.as_tensor(X).to(device), y)
