"""Calibrated weights against SciPy and raking by hand; infeasible targets; bad input; densities."""

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

from majorant import EntropyBalancing, LogisticRegression, MaxEnt
from majorant.core import kernels


def feasible(X, target, tolerance=0.0, cap=np.inf):
    """Return whether some weights have these means, by a linear program in the weights themselves."""
    n, d = X.shape
    A = np.vstack([X.T - target[:, None], -(X.T - target[:, None])])
    found = scipy.optimize.linprog(
        np.zeros(n),
        A_ub=A,
        b_ub=np.full(2 * d, tolerance) + 1e-12,
        A_eq=np.ones((1, n)),
        b_eq=[1.0],
        bounds=(0.0, min(cap / n, 1.0)),
        method="highs",
    )
    return found.status == 0


def by_scipy(X, target, q):
    """Return the weights of least relative entropy, by SciPy on the dual."""
    Z = X - target

    def dual(a):
        s = Z @ a
        w = q * np.exp(s - s.max())
        return np.log(w.sum()) + s.max(), w @ Z / w.sum()

    found = scipy.optimize.minimize(dual, np.zeros(X.shape[1]), jac=True, method="BFGS", options={"gtol": 1e-11})
    w = q * np.exp(Z @ found.x - (Z @ found.x).max())
    return w / w.sum()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 5), st.booleans())
def test_are_the_nearest_weights(seed, d, weighted):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, d)) * 10.0 ** rng.integers(-3, 4, size=d) + rng.normal(size=d) * 100
    target = rng.dirichlet(np.full(60, 2.0)) @ X
    base = rng.uniform(0.5, 2.0, 60) if weighted else np.ones(60)
    found = EntropyBalancing(X, target, base if weighted else None)
    assert found.result_.converged
    assert found.weights_.sum() == pytest.approx(base.sum())
    mean = found.weights_ @ X / found.weights_.sum()
    assert np.abs((mean - target) / X.std(axis=0)).max() < 2e-9
    U = X / X.std(axis=0)
    written = by_scipy(U, target / X.std(axis=0), base / base.sum())
    assert np.allclose(found.weights_ / found.weights_.sum(), written, rtol=1e-4, atol=1e-7)
    # The order of rows does not matter, nor do units, nor the sum of base weights.
    order = rng.permutation(60)
    again = EntropyBalancing(1000 * X[order], 1000 * target, 3 * base[order])
    assert np.allclose(again.weights_, 3 * found.weights_[order], rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.sampled_from([0.0, 0.05]), st.sampled_from([None, 3.0]))
def test_says_converged_exactly_where_weights_exist(seed, d, tolerance, cap):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(25, d))
    target = rng.normal(size=d) * rng.choice([0.3, 1.0, 2.0])
    there_are = feasible(X, target, tolerance, np.inf if cap is None else cap)
    if not there_are:
        with pytest.raises(ValueError, match="infeasible, which is proved"):
            EntropyBalancing(X, target, tolerance=tolerance, max_ratio=cap)
        return
    found = EntropyBalancing(X, target, tolerance=tolerance, max_ratio=cap)
    assert found.result_.converged
    mean = found.weights_ @ X / 25
    assert (np.abs(mean - target) <= tolerance + 1e-8).all()
    if cap is not None:
        assert found.weights_.max() <= cap + 1e-9


def test_raking_by_hand():
    rng = np.random.default_rng(1)
    sex, age = rng.choice(["f", "m"], 300, p=[0.3, 0.7]), rng.choice(["old", "mid", "young"], 300)
    margins = {"sex": {"f": 0.51, "m": 0.49}, "age": {"old": 250, "mid": 400, "young": 350}}
    base = rng.uniform(1.0, 2.0, 300)
    found = EntropyBalancing.from_margins({"sex": sex, "age": age}, margins, base)
    w = base.copy()
    for _ in range(200):
        for values, shares in ((sex, margins["sex"]), (age, margins["age"])):
            for name, share in shares.items():
                w[values == name] *= share / sum(shares.values()) * base.sum() / w[values == name].sum()
    assert np.allclose(found.weights_, w, rtol=1e-8)
    assert found.feature_names_ == ("sex=f", "sex=m", "age=old", "age=mid", "age=young")
    # Cells of both: post-stratification has its weights in closed form.
    cells = {("f", "old"): 1, ("f", "mid"): 2, ("f", "young"): 1, ("m", "old"): 2, ("m", "mid"): 1, ("m", "young"): 3}
    post = EntropyBalancing.from_margins({"sex": sex, "age": age}, {("sex", "age"): cells})
    here = (sex == "m") & (age == "young")
    assert np.allclose(post.weights_[here], 300 * 0.3 / here.sum())


def test_margins_as_a_frame():
    pandas = pytest.importorskip("pandas")
    people = pandas.DataFrame({"sex": ["f", "m", "m"], "n": [1, 2, 3]})
    margins = pandas.DataFrame({"variable": ["sex", "sex"], "category": ["f", "m"], "share": [0.5, 0.5]})
    found = EntropyBalancing.from_margins(people, margins)
    assert np.allclose(found.weights_, [1.5, 0.75, 0.75])
    targets = pandas.Series({"n": 2.2})
    assert EntropyBalancing(people[["n"]], targets).balance().to_frame().loc["n", "after"] == pytest.approx(2.2)


def test_groups_get_the_means_of_the_treated():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 3))
    treated = rng.random(200) < 1 / (1 + np.exp(1 - X[:, 0]))
    found = EntropyBalancing.to_group(X, treated)
    assert np.allclose(np.average(X[~treated], axis=0, weights=found.weights_), X[treated].mean(axis=0), atol=1e-9)
    # Entropy balancing is the dual of a logistic model of being treated with a log link: weights are odds.
    assert np.corrcoef(np.log(found.weights_), X[~treated] @ found.coef_)[0, 1] == pytest.approx(1.0)


def test_tolerance_leaves_columns_alone():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 4))
    target = np.array([0.5, 0.05, -0.4, 0.02])
    found = EntropyBalancing(X, target, tolerance=0.1)
    mean = found.weights_ @ X / 500
    assert (np.abs(mean - target) <= 0.1 + 1e-9).all()
    assert (np.abs(mean - target)[[0, 2]] >= 0.1 - 1e-8).all()  # at the end that costs least
    assert (found.coef_ != 0).tolist() == [True, False, True, False]
    assert found.effective_size_ > EntropyBalancing(X, target).effective_size_


def test_large_rows_are_read_by_compiled_loops():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(2**17, 40)) + 1000.0
    target = X.mean(axis=0) + rng.uniform(-0.2, 0.2, 40)
    assert X.size >= 2**22
    q = rng.uniform(0.5, 2.0, len(X))
    found = EntropyBalancing(X, target, q)
    assert found.result_.converged
    assert found.imbalance_ <= 1e-9
    small = EntropyBalancing(np.ascontiguousarray(X[:5000]), X[:5000].mean(axis=0) + 0.1, q[:5000])
    assert small.result_.converged
    # The kernel and NumPy agree.
    slope, scores, sums = rng.normal(size=40), np.empty(len(X)), np.zeros(40)
    top, total = kernels.entropy.tilted_sums(X, target, slope, np.log(q), scores, sums)
    s = (X - target) @ slope
    w = q * np.exp(s - s.max())
    assert np.allclose(scores, s, atol=1e-9)
    assert top + np.log(total) == pytest.approx(np.log(w.sum()) + s.max(), rel=1e-10)
    assert np.allclose(sums / total, w @ (X - target) / w.sum(), atol=1e-9)


def test_the_fewest_columns_are_named():
    rng = np.random.default_rng(5)
    X = rng.uniform(size=(400, 6))
    X[:, 1] = 1 - X[:, 0] + 0.01 * rng.uniform(size=400)
    with pytest.raises(ValueError, match=r"no weights give 'x0' \(0.9\) and 'x1' \(0.9\) these means together"):
        EntropyBalancing(X, [0.9, 0.9, 0.5, 0.5, 0.5, 0.5])
    with pytest.raises(ValueError, match=r"no weights of at most 1.1 times their base give 'x3' \(0.9\)"):
        EntropyBalancing(X[:, 2:], {"x0": 0.5, "x1": 0.5, "x2": 0.5, "x3": 0.9}, max_ratio=1.1)


def test_on_the_edge_of_the_hull_weights_go_to_zero():
    X = np.array([[0.0], [0.0], [1.0], [2.0]])
    found = EntropyBalancing(X, [0.0])
    assert np.allclose(found.weights_, [2, 2, 0, 0], atol=1e-8)


BAD = {
    "base zero": (
        ([[1.0], [2.0]], [1.5], [1.0, 0.0]),
        {},
        "base_weights must be positive, got 0 at row 1; drop such rows",
    ),
    "base negative": (([[1.0], [2.0]], [1.5], [-1.0, 1.0]), {}, "base_weights must be positive, got -1 at row 0"),
    "base short": (([[1.0], [2.0]], [1.5], [1.0]), {}, r"base_weights must have one entry per row \(2\), got 1"),
    "constant": (
        ([[1.0, 5.0], [2.0, 5.0]], [1.5, 4.0]),
        {},
        r"column 'x1' is constant \(5\), and no weights give it the",
    ),
    "outside": (([[1.0], [2.0]], [2.5]), {}, "values of 'x0' lie between 1 and 2, and its target is 2.5"),
    "missing": (([[1.0], [np.nan]], [1.5]), {}, "X must be finite, got nan"),
    "targets": (([[1.0], [2.0]], [1.5, 2.0]), {}, r"targets must hold a mean for each column of X \(1\), got 2"),
    "names": (([[1.0], [2.0]], {"age": 1.5}), {}, r"targets must name the columns of X \(x0\), and lack 'x0'"),
    "tolerance": (([[1.0], [2.0]], [1.5]), {"tolerance": -1.0}, "tolerance must be non-negative, got -1"),
    "ratio": (([[1.0], [2.0]], [1.5]), {"max_ratio": 1.0}, "max_ratio must be above 1"),
    "empty": ((np.zeros((0, 2)), [1.5, 1.0]), {}, r"X must have rows and columns, got an array of shape \(0, 2\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    given, settings, sentence = BAD[case]
    with pytest.raises(ValueError, match=sentence):
        EntropyBalancing(*given, **settings)


def test_bad_margins_are_named():
    people = {"sex": np.array(["f", "m"])}
    for margins, sentence in (
        ({"sex": {"f": 0.5, "m": 0.3, "x": 0.2}}, "no row has sex = 'x', which should have a share of 0.2"),
        ({"sex": {"f": 1.0}}, "row 1 has sex = 'm', which has no share in the margins"),
        ({"age": {"old": 1.0}}, "there is no column 'age'; there are sex"),
        ({"sex": {"f": -1.0, "m": 2.0}}, "the margin of 'sex' must hold non-negative shares"),
    ):
        with pytest.raises(ValueError, match=sentence):
            EntropyBalancing.from_margins(people, margins)
    with pytest.raises(ValueError, match="treated must name two groups, got only True"):
        EntropyBalancing.to_group([[1.0], [2.0]], [True, True])


def test_what_is_not_balanced_says_so():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(50, 3))
    with pytest.warns(
        UserWarning, match="not balanced after 1 step: the mean of 'x[012]' is .* standard deviations off"
    ):
        found = EntropyBalancing(X, [0.9, 0.8, 0.7], max_iter=1)
    assert not found.result_.converged


def test_constant_columns_that_hold_their_target_say_nothing():
    X = np.column_stack([np.arange(5.0), np.full(5, 3.0)])
    found = EntropyBalancing(X, [2.5, 3.0])
    assert np.allclose(found.weights_, EntropyBalancing(X[:, :1], [2.5]).weights_)


def test_love_plot():
    pytest.importorskip("matplotlib").use("Agg")
    found = EntropyBalancing(np.random.default_rng(7).normal(size=(50, 3)), [0.3, 0.1, -0.2])
    axis = found.plot()
    assert [label.get_text() for label in axis.get_yticklabels()] == ["x1", "x2", "x0"] or len(axis.get_yticks()) == 3


# --- densities ----------------------------------------------------------------------------------------------


def test_a_contingency_table_by_proportional_fitting():
    rng = np.random.default_rng(8)
    table = rng.integers(5, 50, size=(3, 4)).astype(float)
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    cells = [(i, j) for i in range(3) for j in range(4)]
    F = np.array([[float(i == a) for a in range(3)] + [float(j == b) for b in range(4)] for i, j in cells])
    found = MaxEnt(F, np.concatenate([rows, columns]) / table.sum())
    independent = np.outer(rows, columns) / table.sum() ** 2
    assert np.allclose(found.probabilities_.reshape(3, 4), independent, atol=1e-12)
    p = rng.dirichlet(np.ones(12)).reshape(3, 4)  # from other odds: they stay
    fitted = p.copy()
    for _ in range(300):
        fitted *= (rows / table.sum() / fitted.sum(axis=1))[:, None]
        fitted *= columns / table.sum() / fitted.sum(axis=0)
    again = MaxEnt(F, np.concatenate([rows, columns]) / table.sum(), p.ravel())
    assert np.allclose(again.probabilities_.reshape(3, 4), fitted, atol=1e-10)


def test_densities_are_normalised_and_of_largest_entropy():
    rng = np.random.default_rng(9)
    F, h = rng.normal(size=(30, 2)), rng.uniform(0.5, 2.0, 30)
    found = MaxEnt(F, [0.3, -0.2], h)
    p = found.probabilities_
    assert p.sum() == pytest.approx(1.0)
    assert np.allclose(p @ F, [0.3, -0.2], atol=1e-8)
    assert np.allclose(found.log_density(F), np.log(p / (h / h.sum())), atol=1e-8)
    uniform = MaxEnt(F, F.mean(axis=0))
    assert uniform.entropy_ == pytest.approx(np.log(30))
    assert "entropy" in repr(uniform)
    with pytest.raises(ValueError, match="features must have 2 columns, got 3"):
        found.log_density(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="sample must have at least one row"):
        MaxEnt.from_sample(np.zeros((0, 2)), F)


def test_a_species_is_a_logistic_regression_with_many_background_points():
    # As background points multiply, a weighted logistic regression has MaxEnt's coefficients (Fithian & Hastie, 2013).
    rng = np.random.default_rng(10)
    background = rng.normal(size=(2000, 2))
    sample = background[rng.random(2000) < np.exp(background[:, 0] - 4)]
    found = MaxEnt.from_sample(sample, background)
    X = np.vstack([sample, background])
    y = np.repeat([1, 0], [len(sample), 2000])
    logistic = LogisticRegression(C=np.inf).fit(X, y, sample_weight=np.where(y == 1, 1.0, 1e5))
    assert np.allclose(found.coef_, logistic.coef_[0], atol=1e-3)
