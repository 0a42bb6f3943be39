"""``LatentClassLogit``: enumeration, finite differences, monotone steps, the best known maxima, and bad input."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, sparse
from scipy.linalg import block_diag
from sklearn.exceptions import ConvergenceWarning

from majorant import ConditionalLogit, LatentClassLogit, Objective, QuasiNewton, minimize
from majorant.choice.inference import polished
from majorant.choice.latent_classes import LatentClasses, starts
from majorant.choice.sets import Situations, read_people
from majorant.core.result import Fitted
from majorant.core.solver import leave_saddle
from tests.choice_data import ELECTRICITY, electricity, published
from tests.oracles import finite_difference


def people(seed=0, count=25, choices=4, features=2, classes=2, covariates=0, repeated=False, ragged=True, spread=1.5):
    """Return X, y, groups, persons and what is known of people, rows shuffled."""
    rng = np.random.default_rng(seed)
    tastes = spread * rng.normal(size=(classes, features))
    shelf = rng.normal(size=(5, 4, features))
    X, y, groups, persons, Z = [], [], [], [], []
    for i in range(count):
        z, taste = rng.normal(size=covariates), tastes[rng.integers(classes)]
        for t in range(choices):
            size = rng.integers(2, 5) if ragged else 3
            F = shelf[rng.integers(5)][:size] if repeated else rng.normal(size=(size, features))
            utility = F @ taste + rng.gumbel(size=size)
            X.append(F)
            y.append(utility == utility.max())
            groups.append(np.full(size, 10 * i + t))
            persons.append(np.full(size, -i))
            Z.append(np.tile(z, (size, 1)))
    parts = [np.concatenate(each) for each in (X, y, groups, persons, Z)]
    order = rng.permutation(len(parts[0]))
    return [each[order] for each in parts]


def state_of(X, y, groups, persons, Z, *, classes=2, seed=0, ridge=0.0, of_members=0.0, offset=None, weight=None):
    """Return the objective of a panel and random parameters."""
    table = Situations.arranged(X, groups)
    panel = read_people(table, y, persons, Z if Z.shape[1] else None, offset, weight).panel
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(classes, 1 + Z.shape[1]))
    tastes = rng.normal(size=(classes, X.shape[1]))
    penalties = np.concatenate(
        [np.full(tastes.size, ridge), np.tile(np.broadcast_to(of_members, logits[0].shape), classes)]
    )
    return Objective(LatentClasses(classes), panel, ridge=penalties), flat(tastes, logits - logits[0])


def flat(tastes, logits):
    return np.concatenate([np.ravel(tastes), np.ravel(logits)])


def expected(F, theta):
    return F.model.expect(F.model.scores(theta, F.data), F.data)


def hessian(F, theta):
    return F.hessian(theta)[2].as_matrix() + np.diag(F.ridge)


def fit_from(F, theta, tol=1e-12, steps=300):
    """Return where a run leads, and where Newton's last steps do."""
    fitted = Fitted.of(minimize(F, QuasiNewton(), start=theta, tol=tol, saddles=steps, max_steps=steps))
    return fitted, polished(F, fitted)


def pooled(F):
    """Return the objective of one class, and its optimum."""
    one = Objective(LatentClasses(1), F.data, ridge=0.0)
    return one, fit_from(one, np.zeros(one.size))[1]


def naive_loss(F, theta, X, y, groups, persons, Z, ridge=0.0, offset=None, weight=None):
    total, (tastes, logits) = 0.0, F.model.split(theta, F.data)
    for person in np.unique(persons):
        mine = persons == person
        z = np.append(1.0, Z[mine][0])
        priors = np.exp(logits @ z)
        p = priors / priors.sum()
        for group in np.unique(groups[mine]):
            rows = groups == group
            for c, taste in enumerate(tastes):
                e = np.exp(X[rows] @ taste + (0.0 if offset is None else offset[rows]))
                p[c] *= np.prod((e / e.sum()) ** y[rows])
        total -= np.log(p.sum()) * (1.0 if weight is None else weight[mine][0])
    return total + 0.5 * ridge * (tastes**2).sum()


CASES = {
    "plain": dict(),
    "repeated sets": dict(repeated=True),
    "covariates": dict(covariates=2, classes=3),
    "one size": dict(ragged=False, features=3),
}


def agrees_with_differences(F, theta):
    """Compare gradient and Hessian with differences, and the metric with curvatures of known classes."""
    assert_allclose(F.point(theta).gradient, finite_difference(F.value, theta), rtol=1e-5, atol=1e-6)
    eye = 1e-6 * np.eye(len(theta))
    H = [(F.point(theta + e).gradient - F.point(theta - e).gradient) / 2e-6 for e in eye]
    assert_allclose(hessian(F, theta), H, rtol=1e-5, atol=1e-5)
    complete = block_diag(*F.model.complete(expected(F, theta), F.data))
    assert_allclose(F.metric(F.point(theta)), np.diag(complete) + F.ridge, rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_the_loss_is_that_of_enumeration_and_derivatives_are_its(case, ridge):
    data, classes = people(1, **CASES[case]), CASES[case].get("classes", 2)
    F, theta = state_of(*data, classes=classes, ridge=ridge)
    assert_allclose(F.value(theta), naive_loss(F, theta, *data, ridge=ridge), rtol=1e-12)
    agrees_with_differences(F, theta)
    if ridge == 0:
        scores = F.model.row_gradients(F.model.scores(theta, F.data), F.data)
        assert_allclose(scores.sum(axis=0), F.point(theta).gradient, rtol=1e-8, atol=1e-9)
    assert_allclose(expected(F, theta).posteriors.sum(axis=1), 1.0)


def test_weights_offsets_and_shares_count():
    X, y, groups, persons, Z = people(2)
    offset, weight = np.random.default_rng(0).normal(size=len(X)), 1.0 + persons % 3
    F, theta = state_of(X, y, groups, persons, Z, offset=offset, weight=weight)
    naive = naive_loss(F, theta, X, y, groups, persons, Z, offset=offset, weight=weight)
    assert_allclose(F.value(theta), naive, rtol=1e-12)
    soft = np.where(y, 0.75, 0.25 / (np.unique(groups, return_counts=True)[1][np.searchsorted(np.unique(groups), groups)] - 1))  # noqa: E501  # fmt: skip
    F, theta = state_of(X, soft, groups, persons, Z, offset=offset)
    assert_allclose(F.value(theta), naive_loss(F, theta, X, soft, groups, persons, Z, offset=offset), rtol=1e-12)
    agrees_with_differences(F, theta)


@pytest.mark.parametrize("soft", [False, True])
def test_some_people_are_a_panel(soft):
    X, y, groups, persons, Z = people(2, covariates=1, repeated=not soft)
    y = np.where(y, 0.8, 0.8) / np.bincount(groups, np.full(len(y), 0.8))[groups] if soft else y
    F, theta = state_of(X, y, groups, persons, Z)
    some = np.array([4, 0, 7])
    part = Objective(F.model, F.data.take(some), ridge=0.0)
    assert_allclose(part.value(theta), -expected(F, theta).log_likelihoods[some].sum(), rtol=1e-12)
    assert_allclose(part.point(theta).gradient, finite_difference(part.value, theta), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_bounds_never_raise_the_loss(seed):
    """From anywhere, however bad, and without a line search."""
    covariates = seed % 3
    data = people(seed, covariates=covariates, repeated=seed % 2 == 0)
    F, theta = state_of(*data, classes=2 + seed % 3, seed=seed, ridge=0.1 * (seed % 2))
    for _ in range(25):
        following = F.bound(theta).minimizer()
        assert F.value(following) <= F.value(theta) + 1e-10 * abs(F.value(theta))
        theta = following


@pytest.mark.parametrize("seed", range(6))
def test_fits_are_stationary_and_no_worse_than_others_from_the_same_start(seed):
    data = people(seed, count=40, choices=6, covariates=seed % 2, classes=2)
    F, theta = state_of(*data, seed=seed)
    fitted, found = fit_from(F, theta)
    assert (np.diff(fitted.trace["objective"]) < 0).all()
    assert fitted.result.converged
    assert np.abs(F.point(found.theta).gradient).max() < 1e-5
    assert np.linalg.eigvalsh(found.hessian).min() > -1e-6
    near = optimize.minimize(F.value_and_gradient, found.theta + 1e-2, jac=True, method="BFGS")
    assert found.value <= near.fun + 1e-7


def test_saddles_are_left():
    """Classes that are the same are stationary along what tells them apart, but no minimum."""
    F, _ = state_of(*people(3, count=60, choices=8))
    _, one = pooled(F)
    tastes = one.theta[:-1] + 1e-7 * np.array([[1.0], [-1.0]])
    saddle = flat(tastes, np.zeros((2, 1)))
    assert np.linalg.eigvalsh(hessian(F, saddle)).min() < 0
    assert leave_saddle(F, F.point(saddle)) is not None
    fitted, found = fit_from(F, saddle)
    assert found.value < one.value - 1.0
    assert leave_saddle(F, F.point(found.theta)) is None
    assert "no saddle, as far as they tell" in str(fitted.result)


def test_threads_share_the_starts():
    X, y, groups, persons, _ = people(2, count=40)
    one, two = (LatentClassLogit(2, n_jobs=n_jobs).fit(X, y, groups, persons) for n_jobs in (1, 2))
    assert_array_equal(one.coef_, two.coef_)
    assert_array_equal(one.start_log_likelihoods_, two.start_log_likelihoods_)


def test_quasi_complete_separation_names_class_and_column():
    """Who has the third feature, which few sets have, always takes it; the others choose as they like."""
    X, y, groups, persons, _ = people(6, count=60, choices=6, features=2, ragged=False)
    order = np.argsort(groups, kind="stable")
    X, y, groups, persons = X[order], y[order].astype(bool), groups[order], persons[order]
    rare = np.where(y & (groups % 7 == 0), 1.0, 0.0)
    X = np.column_stack([X, rare])
    with pytest.warns(ConvergenceWarning, match="quasi-completely separated.* along 'x2' in class 1"):
        model = LatentClassLogit(1).fit(X, y, groups, persons)
    assert model.result_.outcome.value == "unbounded"
    with pytest.warns(ConvergenceWarning, match="'x2' in class 1, 'x2' in class 2"):
        LatentClassLogit(2, n_init=3).fit(X, y, groups, persons)
    assert LatentClassLogit(1, C=10.0).fit(X, y, groups, persons).result_.converged
    rare[np.flatnonzero((groups % 7 == 1) & ~y)[0]] = 1.0  # one that was not taken
    X[:, 2] = rare
    assert LatentClassLogit(1).fit(X, y, groups, persons).result_.converged


def test_one_class_is_a_conditional_logit():
    X, y, groups, persons, _ = people(4)
    one, plain = LatentClassLogit(1).fit(X, y, groups, persons), ConditionalLogit().fit(X, y, groups)
    assert_allclose(one.coef_[0], plain.coef_, rtol=1e-8)
    assert_allclose(one.log_likelihood_, plain.log_likelihood_, rtol=1e-12)
    assert_allclose(one.null_log_likelihood_, plain.null_log_likelihood_, rtol=1e-12)
    assert_allclose(one.covariance(), plain.covariance(), rtol=1e-7)
    assert_allclose(one.covariance("robust"), _by_person(plain, groups, persons), rtol=1e-6)
    assert_allclose(one.predict_proba(X, groups), plain.predict_proba(X, groups), rtol=1e-7)


def _by_person(plain, groups, persons):
    return plain.covariance("cluster", persons) * 24 / 25  # without the factor G/(G − 1)


# --- membership that is separated -------------------------------------------------------------------------


def divided(seed, count=60, choices=5, sharp=np.inf):
    """Return X, y, groups, persons and z of two classes; who has z above 0.2 is of the second one, if ``sharp``."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=count)
    which = (z > 0.2 + rng.logistic(size=count) / sharp).astype(int)
    X = rng.normal(size=(count, choices, 3, 2))
    utility = np.einsum("itad,id->ita", X, np.array([[1.5, -0.5], [-1.0, 1.0]])[which])
    utility += rng.gumbel(size=utility.shape)
    y = (utility == utility.max(axis=2, keepdims=True)).ravel()
    groups, persons = np.repeat(np.arange(count * choices), 3), np.repeat(np.arange(count), 3 * choices)
    return X.reshape(-1, 2), y, groups, persons, z[persons]


@pytest.mark.parametrize("seed", range(3))
def test_separated_memberships_are_said_and_a_penalty_helps(seed):
    X, y, groups, persons, z = divided(seed)
    with pytest.warns(ConvergenceWarning, match=r"membership is separated by 'z0'.*use a finite membership_C"):
        model = LatentClassLogit(2, n_init=4).fit(X, y, groups, persons, membership=z)
    assert model.result_.outcome.value == "unbounded"
    assert model.n_iter_ < 60
    assert "use a finite C" not in str(model.result_)
    penalised = LatentClassLogit(2, n_init=4, membership_C=10.0).fit(X, y, groups, persons, membership=z)
    assert penalised.result_.outcome.value == "stationary"
    assert np.abs(penalised.membership_).max() < 20
    assert np.isfinite(penalised.summary().std_errors).all()
    assert "membership_C = 10" in str(penalised.summary())
    assert penalised.log_likelihood_ < model.log_likelihood_
    assert_allclose(np.abs(penalised.coef_ - model.coef_).max(), 0, atol=0.3)
    named = pytest.importorskip("pandas").DataFrame({"income": z})
    with pytest.warns(ConvergenceWarning, match="membership is separated by 'income'"):
        LatentClassLogit(2, n_init=2).fit(X, y, groups, persons, membership=named)
    blurred = divided(seed, count=200, sharp=2.0)  # what tells a little is no separation
    honest = LatentClassLogit(2, n_init=2).fit(*blurred[:4], membership=blurred[4])
    assert honest.result_.outcome.value == "stationary"


def test_a_group_of_people_of_one_class_is_quasi_separation():
    """Everybody with the mark is of the second class; of others half are."""
    rng = np.random.default_rng(3)
    count, choices = 80, 12
    mark = np.arange(count) % 4 == 0
    which = np.where(mark, 1, rng.integers(2, size=count))
    X = rng.normal(size=(count, choices, 3, 2))
    utility = np.einsum("itad,id->ita", X, np.array([[2.0, -1.0], [-2.0, 1.0]])[which])
    utility += rng.gumbel(size=utility.shape)
    y = (utility == utility.max(axis=2, keepdims=True)).ravel()
    groups, persons = np.repeat(np.arange(count * choices), 3), np.repeat(np.arange(count), 3 * choices)
    with pytest.warns(ConvergenceWarning, match="membership is separated by 'z0'"):
        model = LatentClassLogit(2, n_init=2).fit(X.reshape(-1, 2), y, groups, persons, membership=mark[persons])
    shares = model.memberships_[mark].mean(axis=0)
    assert shares.max() > 1 - 1e-6
    fit = LatentClassLogit(2, n_init=2, membership_C=1.0).fit(
        X.reshape(-1, 2), y, groups, persons, membership=mark[persons]
    )
    assert fit.result_.outcome.value == "stationary"


@pytest.mark.parametrize("classes", [2, 3])
def test_penalties_of_membership_are_penalties_whatever_the_order_of_classes(classes):
    """A ridge on logits is one on what they differ from their mean: what is added to all of them goes to zero."""
    data, ridge = people(1, covariates=2, classes=classes), np.array([0.0, 0.7, 2.0])
    F, theta = state_of(*data, classes=classes, of_members=ridge)
    tastes, logits = F.model.split(theta, F.data)
    centred = logits - logits.mean(axis=0)
    penalty = 0.5 * (ridge * centred**2).sum()
    centre = flat(tastes, centred)
    assert_allclose(F.value(centre), naive_loss(F, theta, *data) + penalty, rtol=1e-12)
    assert F.value(centre) <= F.value(theta)
    assert_allclose(F.value(flat(tastes[::-1], centred[::-1])), F.value(centre), rtol=1e-12)
    agrees_with_differences(F, theta)
    assert F.value(F.bound(theta).minimizer()) < F.value(theta)


def starts_of(data, classes, count, seed=0):
    F, _ = state_of(*data)
    _, found = pooled(F)
    d = F.data.features.shape[1]
    model = LatentClasses(classes)
    begin = starts(F.data, found.theta[:d], found.hessian[:d, :d], classes, count, seed)
    return model, F.data, [model.split(theta, F.data) for theta in begin]


def test_half_of_the_starts_have_memberships_of_their_own():
    X, y, groups, persons, Z = people(15, covariates=2, count=40)
    slopes = [logits[1:, 1:] - logits[0, 1:] for _, logits in starts_of((X, y, groups, persons, Z), 3, 10)[2]]
    drawn = [each for each in slopes if np.abs(each).max() > 0.1]
    assert len(drawn) == 5
    assert len({each.round(6).tobytes() for each in drawn}) == 5
    shares = [logits.round(6).tobytes() for _, logits in starts_of((X, y, groups, persons, Z[:, :0]), 2, 10)[2]]
    assert len(set(shares)) > 5


def test_starts_that_divide_people_find_what_tastes_alone_do_not():
    """Memberships have no end there, and many local maxima; divided by tastes alone, people lead to lower ones."""
    found = []
    for seed in (4, 10):
        X, y, groups, persons, Z = people(seed, count=30, choices=3, covariates=2, spread=0.7)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            ends = LatentClassLogit(2).fit(X, y, groups, persons, membership=Z).start_log_likelihoods_
        found.append(ends[1::2].max() - ends[::2].max())
    assert max(found) > 0.01


# --- the best known maxima --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_the_first_people_of_electricity(seed):
    frame = electricity()[:3000]
    model = LatentClassLogit(2, random_state=seed).fit(frame[ELECTRICITY], frame.choice, frame.chid, frame.id)
    assert len(np.concatenate([model.coef_.ravel(), model.membership_.ravel()])) == 13
    assert model.log_likelihood_ >= -790.92
    assert_allclose(model.log_likelihood_, -790.916012, atol=1e-6)
    best = [
        [-0.31849, 0.00783, 2.38147, 2.05967, -3.10133, -3.08815],
        [-1.08564, -0.38727, 0.41911, 0.50661, -9.32844, -9.92087],
    ]
    assert_allclose(model.coef_, best, atol=2e-5)
    assert "stationary" in str(model.result_)
    assert "nothing certifies" in str(model.result_)
    assert np.isnan(model.result_.gap)


def test_the_published_maximum_and_its_standard_errors():
    """gmnl's, which is a local one; gmnl stopped just before it (its log-likelihood there is -792.855418)."""
    frame, what = electricity()[:3000], published("electricity_latent2_750")
    table = Situations.arranged(frame[ELECTRICITY].to_numpy(float), frame.chid.to_numpy())
    found = read_people(table, frame.choice.to_numpy(), frame.id.to_numpy(), None, None, None)
    classes = ("class_1", "class_2")
    tastes = np.array([[what["published"][each][name] for name in ELECTRICITY] for each in classes])
    logits = np.array([[0.0], [what["published"]["membership_logit_2"]]])
    F = Objective(LatentClasses(2), found.panel, ridge=0.0)
    assert_allclose(F.value(flat(tastes, logits)), 792.855418, atol=1e-5)
    _, top = fit_from(F, flat(tastes, logits))
    assert_allclose(top.value, -what["recomputed"]["log_likelihood"], atol=1e-6)
    best = np.array([[what["recomputed"][each][name] for name in ELECTRICITY] for each in classes])
    assert_allclose(top.theta[:12].reshape(2, 6), best, atol=2e-5)
    errors = np.sqrt(np.diag(np.linalg.inv(np.delete(np.delete(top.hessian, 12, 0), 12, 1))))[:12].reshape(2, 6)
    printed = np.array([[what["published"][f"{each}_std_err"][name] for name in ELECTRICITY] for each in classes])
    assert_allclose(errors, printed, rtol=5e-3)


@pytest.mark.parametrize("seed", range(3))
def test_estimates_are_those_of_an_em_algorithm_and_errors_those_of_differences(seed):
    X, y, groups, persons, z = divided(seed, count=150, sharp=2.0)
    model = LatentClassLogit(2, n_init=4).fit(X, y, groups, persons, membership=z)
    F, chosen = X.reshape(150, 5, 3, 2), y.reshape(150, 5, 3)
    Z = np.column_stack([np.ones(150), z.reshape(150, -1)[:, 0]])
    theta = em(F, chosen, Z, np.concatenate([model.coef_.ravel(), model.membership_.ravel()]).round(1))
    assert_allclose(model.log_likelihood_, np.log(likelihoods(theta, F, chosen, Z).sum(axis=1)).sum(), rtol=1e-9)
    assert_allclose(np.concatenate([model.coef_.ravel(), model.membership_.ravel()]), theta, atol=1e-4)

    def log_likelihood(at):
        return np.log(likelihoods(at, F, chosen, Z).sum(axis=1)).sum()

    step, eye, H = 1e-4, np.eye(6), np.empty((6, 6))
    corners = ((1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1))
    for i, j in np.ndindex(6, 6):
        H[i, j] = -sum(s * log_likelihood(theta + step * (a * eye[i] + b * eye[j])) for a, b, s in corners) / 4e-8
    assert_allclose(model.summary().std_errors, np.sqrt(np.diag(np.linalg.inv(H))), rtol=1e-3)
    scores = np.array([(_log_each(theta + 1e-5 * e, F, chosen, Z) - _log_each(theta - 1e-5 * e, F, chosen, Z)) / 2e-5 for e in eye])  # noqa: E501  # fmt: skip
    sandwich = np.linalg.inv(H) @ scores @ scores.T @ np.linalg.inv(H)
    assert_allclose(model.summary("robust").std_errors, np.sqrt(np.diag(sandwich)), rtol=1e-3)


def likelihoods(theta, F, chosen, Z):
    """Return π_c(z_i) Π_t P_c(y_it) for every person and both classes."""
    tastes, logit = theta[:4].reshape(2, 2), Z @ theta[4:]
    scores = np.einsum("itad,cd->itac", F, tastes)
    log_p = scores - np.log(np.exp(scores).sum(axis=2, keepdims=True))
    made = np.exp((log_p * chosen[..., None]).sum(axis=(1, 2)))
    second = 1.0 / (1.0 + np.exp(-logit))
    return made * np.stack([1 - second, second], axis=1)


def _log_each(theta, F, chosen, Z):
    return np.log(likelihoods(theta, F, chosen, Z).sum(axis=1))


def em(F, chosen, Z, theta, steps=300):
    """Return where the EM algorithm leads, with one Newton step of each logit in its M-steps."""
    for _ in range(steps):
        joint = likelihoods(theta, F, chosen, Z)
        posterior = joint / joint.sum(axis=1, keepdims=True)
        tastes = theta[:4].reshape(2, 2).copy()
        for c in range(2):
            p = np.exp(F @ tastes[c])
            p /= p.sum(axis=2, keepdims=True)
            spread = F - (p[..., None] * F).sum(axis=2, keepdims=True)
            g = np.einsum("i,ita,itad->d", posterior[:, c], chosen - p, F)
            tastes[c] += np.linalg.solve(np.einsum("i,ita,itad,itae->de", posterior[:, c], p, spread, spread), g)
        second = 1.0 / (1.0 + np.exp(-Z @ theta[4:]))
        step = np.linalg.solve((Z.T * (second * (1 - second))) @ Z, Z.T @ (posterior[:, 1] - second))
        theta = np.concatenate([tastes.ravel(), theta[4:] + step])
    return theta


@pytest.mark.parametrize(("classes", "best"), [(2, -4526.829029), (3, -4298.027528)])
def test_all_people_of_electricity(classes, best):
    frame = electricity()
    model = LatentClassLogit(classes).fit(frame[ELECTRICITY], frame.choice, frame.chid, frame.id)
    assert model.log_likelihood_ >= best - 1e-6
    assert (np.diff(model.shares_) <= 0).all()


# --- the estimator ----------------------------------------------------------------------------------------


def test_classes_are_found_again_with_what_tells_them_apart():
    rng = np.random.default_rng(0)
    count, choices = 400, 8
    z = rng.normal(size=count)
    which = (rng.random(count) < 1 / (1 + np.exp(0.5 - 1.5 * z))).astype(int)  # a third or so in class 1
    tastes = np.array([[1.5, -0.5], [-1.0, 1.0]])[which]
    X = rng.normal(size=(count, choices, 3, 2))
    utility = np.einsum("itad,id->ita", X, tastes) + rng.gumbel(size=(count, choices, 3))
    y = (utility == utility.max(axis=2, keepdims=True)).ravel()
    groups, persons = np.repeat(np.arange(count * choices), 3), np.repeat(np.arange(count), 3 * choices)
    Z = np.repeat(z, 3 * choices)
    model = LatentClassLogit(2, n_init=3).fit(X.reshape(-1, 2), y, groups, persons, membership=Z)
    errors = np.sqrt(np.diag(model.covariance()))
    truth = np.array([1.5, -0.5, -1.0, 1.0, -0.5, 1.5])
    estimates = np.concatenate([model.coef_.ravel(), model.membership_.ravel()])
    assert (np.abs(estimates - truth) < 4 * errors).all()
    assert_allclose(np.sqrt(np.diag(model.covariance("robust"))), errors, rtol=0.3)
    assert (model.memberships_.argmax(axis=1) == which).mean() > 0.95
    people_, again = model.predict_membership(X.reshape(-1, 2), y, groups, persons, membership=Z)
    assert_array_equal(people_, model.people_)
    assert_allclose(again, model.memberships_, rtol=1e-9)
    assert_allclose(model.score(X.reshape(-1, 2), y, groups, persons, membership=Z), model.log_likelihood_ / count)
    p = model.predict_proba(X.reshape(-1, 2), groups, membership=Z)
    assert_allclose(np.add.reduceat(p, np.arange(0, len(p), 3)), 1.0)
    sure = model.predict_proba(X.reshape(-1, 2), groups, weights=np.repeat(model.memberships_, 3 * choices, axis=0))
    assert np.log(sure[y]).mean() > np.log(p[y]).mean()
    assert model.predict(X.reshape(-1, 2), groups, membership=Z).sum() == count * choices


def test_weights_are_repetitions_and_sparse_rows_are_rows():
    X, y, groups, persons, _ = people(5, count=20, choices=6)
    weight = 1.0 + persons % 2
    weighted = LatentClassLogit(2).fit(sparse.csr_array(X), y, groups, persons, sample_weight=weight)
    twice = weight == 2
    repeated = LatentClassLogit(2).fit(
        np.concatenate([X, X[twice]]),
        np.concatenate([y, y[twice]]),
        np.concatenate([groups, groups[twice] + 10_000]),
        np.concatenate([persons, persons[twice] - 10_000]),
    )
    assert_allclose(weighted.log_likelihood_, repeated.log_likelihood_, rtol=1e-9)
    assert_allclose(np.sort(weighted.coef_, axis=0), np.sort(repeated.coef_, axis=0), atol=1e-5)
    none = LatentClassLogit(2).fit(X, y, groups, persons, sample_weight=np.where(persons == 0, 0.0, 1.0))
    assert 0 not in none.people_


def test_numbers_of_classes_side_by_side():
    X, y, groups, persons, _ = people(6, count=60, choices=8, spread=2.0)
    found = LatentClassLogit(n_init=4).compare(range(1, 4), X, y, groups, persons)
    frame = found.to_frame()
    assert list(frame.index) == [1, 2, 3]
    assert (np.diff(frame.log_likelihood) > 0).all()
    assert_allclose(frame.aic, 2 * frame.parameters - 2 * frame.log_likelihood)
    assert_allclose(frame.bic, np.log(60) * frame.parameters - 2 * frame.log_likelihood)
    assert found.best.n_classes_ == 2
    assert len(str(found).splitlines()) == 4


def test_empty_classes_are_dropped_and_said(monkeypatch):
    def with_an_empty_class(panel, pooled, H, classes, count, seed):
        begin = starts(panel, pooled, H, classes, count, seed)
        tastes, logits = LatentClasses(classes).split(begin[0], panel)
        return [flat(tastes, logits + np.array([[0.0], [-1e5], [0.5]]))]

    monkeypatch.setattr("majorant.choice.latent_class_logit.starts", with_an_empty_class)
    X, y, groups, persons, _ = people(7, count=30)
    model = LatentClassLogit(3, n_init=1).fit(X, y, groups, persons)
    assert model.n_classes_ == 2
    assert (np.diff(model.shares_) <= 0).all()
    assert model.log_likelihood_ >= model.start_log_likelihoods_[0] - 1e-9
    assert "1 of 3 classes had no one in them" in str(model.result_)


def test_more_classes_than_there_are_stay_finite():
    """Noise: classes are the same, or hold one person, and none of that is a NaN."""
    X, y, groups, persons, _ = people(8, count=8, choices=2, spread=0.0)
    for seed in range(2):
        with np.errstate(all="raise", under="ignore"):
            model = LatentClassLogit(4, C=100.0, random_state=seed, n_init=4).fit(X, y, groups, persons)
        for found in (model.coef_, model.membership_, model.shares_, model.memberships_, model.summary().estimates):
            assert np.isfinite(found).all()
        assert not np.isnan(model.summary().std_errors).any()
        assert not np.isnan(model.summary("robust").std_errors).any()


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classes_that_run_off_do_so_in_few_steps():
    steps = []
    for seed in (8, 9, 10, 11, 12):
        X, y, groups, persons, Z = people(seed, count=30, choices=3, covariates=2, spread=0.7)
        model = LatentClassLogit(2, n_init=1).fit(X, y, groups, persons, membership=Z)
        assert model.result_.outcome.value == "unbounded"
        steps.append(model.n_iter_)
    assert np.median(steps) < 80
    assert max(steps) < 200


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classes_that_separate_stay_finite():
    X, y, groups, persons, _ = people(9, count=6, choices=2, spread=8.0)
    model = LatentClassLogit(2, max_iter=60).fit(X, y, groups, persons)
    assert np.abs(model.coef_).max() > 20  # the choices of a class are all explained, and estimates run off
    assert np.isfinite(model.coef_).all()
    for kind in ("hessian", "robust"):
        assert "nan" not in str(model.summary(kind)).lower()


def test_the_summary_names_classes_and_shares():
    X, y, groups, persons, Z = people(10, covariates=1, count=40)
    model = LatentClassLogit(2).fit(X, y, groups, persons, membership=Z)
    summary = model.summary()
    assert summary.names[-2:] == ("membership 2: (Intercept)", "membership 2: z0")
    assert "shares of the classes" in str(summary)
    assert "people" in str(summary)


def test_models_are_saved_and_pickled(tmp_path):
    X, y, groups, persons, Z = people(11, covariates=1, count=30)
    model = LatentClassLogit(2, random_state=1).fit(X, y, groups, persons, membership=Z)
    model.save(tmp_path / "model.npz", notes={"a": 1})
    for loaded in (LatentClassLogit.load(tmp_path / "model.npz"), pickle.loads(pickle.dumps(model))):
        assert_array_equal(loaded.predict_proba(X, groups, membership=Z), model.predict_proba(X, groups, membership=Z))
        assert str(loaded.summary()) == str(model.summary())
        assert_array_equal(loaded.people_, model.people_)
    assert_allclose(LatentClassLogit.load(tmp_path / "model.npz").covariance("robust"), model.covariance("robust"))
    with pytest.raises(ValueError, match="needs the data of the fit"):
        pickle.loads(pickle.dumps(model)).covariance("robust")


BAD = {
    "n_classes must be a whole number": (dict(n_classes=0), {}),
    "n_init must be a whole number": (dict(n_init=0), {}),
    "membership_C must be positive": (dict(membership_C="1"), {}),
    "need as many people, got 5": (dict(n_classes=6), {}),
    "persons must be the same for all rows of a group, got several values in group": ({}, dict(persons="rows")),
    "membership must be the same for all rows of a person, got several values for person": (
        {},
        dict(membership="groups"),
    ),
    "membership column 'z0' is the same for all people": ({}, dict(membership="ones")),
    "membership must hold finite numbers": ({}, dict(membership="nan")),
    "has no chosen row": ({}, dict(y="zeros")),
    "constant within every group": ({}, dict(X="ones")),
    "sample_weight must be non-negative, finite": ({}, dict(sample_weight="negative")),
}


@pytest.mark.parametrize("sentence", BAD)
def test_what_is_wrong_is_said(sentence):
    X, y, groups, persons, _ = people(12, count=5)
    values = {
        "rows": np.arange(len(X)),
        "groups": groups,
        "ones": np.ones(len(X)),
        "nan": np.full(len(X), np.nan),
        "zeros": np.zeros(len(X)),
        "negative": -np.ones(len(X)),
    }
    settings, changes = BAD[sentence]
    arguments = dict(X=X, y=y, groups=groups, persons=persons) | {name: values[key] for name, key in changes.items()}
    if changes.get("X"):
        arguments["X"] = np.column_stack([X, np.ones(len(X))])
    model = LatentClassLogit(**settings)
    with pytest.raises(ValueError, match=sentence):
        model.fit(**arguments)
    assert not hasattr(model, "coef_")


def test_covariates_of_the_fit_are_needed_again():
    X, y, groups, persons, Z = people(13, covariates=1)
    model = LatentClassLogit(2, n_init=2).fit(X, y, groups, persons, membership=Z)
    with pytest.raises(ValueError, match="membership must be given as in the fit: z0"):
        model.predict_proba(X, groups)
    with pytest.raises(ValueError, match="weights must have shape"):
        model.predict_proba(X, groups, weights=np.ones(3))


def test_step_limits_are_said():
    X, y, groups, persons, _ = people(14)
    with pytest.warns(ConvergenceWarning, match="limit of 2 steps"):
        LatentClassLogit(2, max_iter=2, n_init=1).fit(X, y, groups, persons)


def test_starts_differ_but_can_be_repeated():
    one, two = ([flat(*start) for start in starts_of(people(15), 2, 3)[2]] for _ in range(2))
    assert_array_equal(one, two)
    assert len({tuple(start.round(6)) for start in one}) > 1


# --- data frames ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["pandas", "polars"])
def test_data_frames_are_rows_with_constants(package):
    frames = pytest.importorskip(package)
    X, y, groups, persons, Z = people(covariates=1, ragged=False)
    alternative = np.zeros(len(y), dtype=int)
    for group in np.unique(groups):
        alternative[groups == group] = np.arange(3)
    here = ((y == 1) | (alternative != 2) | (groups % 3 > 0)).astype(int)
    weight = 1 + persons % 3
    df = frames.DataFrame(
        dict(a=X[:, 0], b=X[:, 1], y=y, g=groups, who=persons, z=Z[:, 0], alt=alternative, here=here, w=weight)
    )
    columns = dict(choice="y", group="g", person="who", alternative="alt", features=["a", "b"], base=1)
    more = dict(availability="here", membership=["z"], sample_weight="w")
    found = LatentClassLogit.from_long(df, **columns, **more, n_init=2)
    by_hand = LatentClassLogit(n_init=2).fit(
        np.column_stack([alternative == 0, alternative == 2, X]),
        y,
        groups,
        persons,
        membership=Z,
        offset=np.where(here == 1, 0.0, -np.inf),
        sample_weight=weight,
    )
    assert found.param_names_[:2] == ["class 1: (Intercept):0", "class 1: (Intercept):2"]
    assert found.param_names_[-1] == "membership 2: z"
    assert_allclose(found.log_likelihood_, by_hand.log_likelihood_, rtol=1e-9)
    assert_allclose(found.coef_, by_hand.coef_, rtol=1e-4, atol=1e-5)
    with pytest.raises(ValueError, match="no coefficient to fit"):
        LatentClassLogit.from_long(df, choice="y", group="g")
    with pytest.raises(ValueError, match="person names the column 'whom'"):
        LatentClassLogit.from_long(df, choice="y", group="g", features=["a"], person="whom")
