"""``LatentChainCRF``: chains with hidden states for people."""

from __future__ import annotations

import functools
import itertools
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from majorant import ChainCRF, Checkpoint, Chunks, EarlyStopping, LatentChainCRF


def sentences(many=60, seed=0):
    """Sequences that hidden states explain: a label lasts for exactly two tokens, which are hard to tell apart."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for _ in range(many):
        labels = [label for _ in range(rng.integers(2, 5)) for label in [rng.choice(["a", "b", "c"])] * 2]
        X.append([["one", f"w={label if rng.uniform() < 0.5 else '?'}"] for label in labels])
        y.append(labels)
    return X, y


X, Y = sentences()
X_TEST, Y_TEST = sentences(40, seed=1)


def log_likelihood(model, X, y):
    """The mean over sequences of log p(y|x), which a wrong label makes no smaller than marginals can tell."""
    data = model._read_more(X, y)
    return -model._model().loss(model._model().scores(model._weights.theta, data), data) / len(X)


def test_hidden_states_find_what_labels_cannot():
    plain, latent = ChainCRF(c2=0.1).fit(X, Y), LatentChainCRF(2, c2=0.1).fit(X, Y)
    assert log_likelihood(latent, X_TEST, Y_TEST) > log_likelihood(plain, X_TEST, Y_TEST) + 0.5


def test_one_state_of_one_label_is_a_chain_of_one_label():
    labels = [["a"] * len(tokens) for tokens in X]
    assert LatentChainCRF(1).fit(X, labels).predict(X) == ChainCRF().fit(X, labels).predict(X) == labels


def test_one_state_is_a_chain():
    for weight in (None, np.random.default_rng(0).uniform(size=len(X)), [np.linspace(1, 2, len(y)) for y in Y]):
        ours = LatentChainCRF(1, c2=0.3, n_init=4, tol=1e-3).fit(X, Y, weight)
        theirs = ChainCRF(c2=0.3).fit(X, Y, weight)
        np.testing.assert_allclose(ours._weights.theta, theirs._weights.theta, atol=1e-10)
        assert ours.predict(X_TEST) == theirs.predict(X_TEST)
        assert ours.predict_marginals(X_TEST[:2]) == theirs.predict_marginals(X_TEST[:2])
        assert ours.result_.message.endswith(theirs.result_.message)
        np.testing.assert_equal(ours.gap_, theirs.gap_)


def test_the_result_says_what_was_found():
    model = LatentChainCRF(2, n_init=3).fit(X, Y)
    assert model.result_.converged
    assert model.result_.message.startswith("stationary after")
    assert "the loss is not convex" in model.result_.message
    assert "best of 3 restarts" in model.result_.message
    assert np.isnan(model.gap_)
    assert model.restarts_.shape == (3,)
    assert model.trace_["objective"][-1] == model.restarts_.min()
    assert (np.diff(model.trace_["objective"]) <= 0).all()


def test_fits_are_repeatable_and_starts_differ():
    first, again = LatentChainCRF(2).fit(X, Y), LatentChainCRF(2).fit(X, Y)
    np.testing.assert_array_equal(first._weights.theta, again._weights.theta)
    other = LatentChainCRF(2, random_state=1).fit(X, Y)
    assert np.abs(first._weights.theta - other._weights.theta).max() > 1e-3
    assert len(np.unique(LatentChainCRF(2, n_init=3, random_state=2).fit(X, Y).restarts_)) == 3


def test_states_of_a_label_part():
    model = LatentChainCRF({"a": 2, "b": 3}, c2=0.1).fit(X, Y)
    assert model.n_states_.tolist() == [2, 3, 1]
    weights = model.state_features_
    assert abs(weights["w=a", ("a", 0)] - weights["w=a", ("a", 1)]) > 1e-3
    assert {state for _, state in weights} == {("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)}
    assert (("b", 2), ("c", 0)) in model.transition_features_


@pytest.mark.parametrize("decoding", ["viterbi", "marginal"])
def test_labels_own_the_states_that_are_found(decoding):
    model = LatentChainCRF(2, c2=0.1, decoding=decoding).fit(X, Y)
    labels, marginals = model.predict(X_TEST), model.predict_marginals(X_TEST)
    if decoding == "viterbi":
        assert [[label for label, _ in states] for states in model.predict_latent(X_TEST)] == labels
    else:
        assert [[max(each, key=each.get) for each in sequence] for sequence in marginals] == labels
    for each in (each for sequence in marginals for each in sequence):
        assert sum(each.values()) == pytest.approx(1.0)
    assert model.predict_single(X_TEST[0]) == labels[0]
    assert model.predict_marginals_single(X_TEST[0]) == marginals[0]


def test_a_weight_of_two_is_the_sequence_twice():
    weighted = LatentChainCRF(2, tol=1e-7).fit(X[:20], Y[:20], [2.0, *np.ones(19)])
    twice = LatentChainCRF(2, tol=1e-7).fit([X[0], *X[:20]], [Y[0], *Y[:20]])
    for label in "abc":
        one, other = (m.predict_marginals(X_TEST[:5]) for m in (weighted, twice))
        np.testing.assert_allclose([p[label] for s in one for p in s], [p[label] for s in other for p in s], atol=1e-3)


def test_files_hold_all_there_is(tmp_path):
    for n_latent in (2, {"a": 3}):
        model = LatentChainCRF(n_latent, decoding="marginal").fit(X, Y)
        model.save(tmp_path / "model", notes={"of": "letters"})
        back = LatentChainCRF.load(tmp_path / "model")
        assert back.get_params() == model.get_params()
        assert back.notes_ == {"of": "letters"}
        assert back.predict_marginals(X_TEST) == model.predict_marginals(X_TEST)
        assert back.predict_latent(X_TEST) == model.predict_latent(X_TEST)
        assert back.transition_features_ == model.transition_features_
        assert str(back.result_) == str(model.result_)
    with pytest.raises(ValueError, match="holds a LatentChainCRF"):
        ChainCRF.load(tmp_path / "model")


def test_callbacks_follow_and_checkpoints_go_on(tmp_path):
    rows = []
    whole = LatentChainCRF(2, tol=1e-5, callbacks=[lambda row, theta: rows.append(row["objective"])]).fit(X, Y)
    np.testing.assert_array_equal(rows, whole.trace_["objective"])
    stop = Checkpoint(tmp_path / "fit", every=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        LatentChainCRF(2, tol=1e-5, max_iter=4, callbacks=[stop]).fit(X, Y)
    on = LatentChainCRF(2, tol=1e-5).fit(X, Y, resume_from=tmp_path / "fit")
    np.testing.assert_array_equal(on._weights.theta, whole._weights.theta)
    with pytest.raises(ValueError, match="n_init must be 1, got 2"):
        LatentChainCRF(2, tol=1e-5, n_init=2).fit(X, Y, resume_from=tmp_path / "fit")
    with pytest.raises(ValueError, match="a Checkpoint follows one fit: n_init must be 1, got 2"):
        LatentChainCRF(2, n_init=2, callbacks=[stop]).fit(X, Y)
    early = EarlyStopping(X_TEST, Y_TEST, patience=2)
    stopped = LatentChainCRF(2, c2=1e-3, tol=1e-6, callbacks=[early]).fit(X, Y)
    assert log_likelihood(stopped, X_TEST, Y_TEST) * len(X_TEST) == pytest.approx(
        early.best_score * sum(map(len, Y_TEST))
    )


def test_a_limit_of_steps_is_a_warning():
    with pytest.warns(ConvergenceWarning, match="stopped at the limit of 2 steps; .* the loss is not convex"):
        LatentChainCRF(2, max_iter=2, tol=1e-9).fit(X, Y)


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_make_no_difference(threads):
    one, many = (LatentChainCRF(2, n_jobs=k).fit(X, Y) for k in (1, threads))
    np.testing.assert_array_equal(one._weights.theta, many._weights.theta)


def test_sources_and_workers_are_read():
    def pieces():
        for k in range(0, len(X), 20):
            yield X[k : k + 20], Y[k : k + 20]

    from_source = LatentChainCRF(2, c2=0.1, tol=1e-4).fit(Chunks(pieces))
    assert from_source.result_.converged
    assert from_source.predict(Chunks(pieces)) == from_source.predict(X)
    assert from_source.predict_latent(Chunks(pieces)) == from_source.predict_latent(X)
    with ThreadPoolExecutor(2) as pool:
        shared = LatentChainCRF(2, c2=0.1, tol=1e-4).fit(X, Y, executor=pool)
    assert shared.result_.converged
    assert shared.restarts_[0] == pytest.approx(from_source.restarts_[0], rel=1e-3)


def test_clones_and_settings():
    model = LatentChainCRF({"a": 2}, c2=0.5, n_init=2)
    assert clone(model).get_params() == model.get_params()
    fitted = model.fit(X, Y)
    fitted.set_params(n_latent=3)
    assert len(fitted.predict(X_TEST)) == len(X_TEST)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (dict(n_latent=0), "n_latent must be a whole number of at least 1, got 0"),
        (dict(n_latent=1.5), "n_latent must be a whole number of at least 1, got 1.5"),
        (dict(n_latent=float("nan")), "n_latent must be a whole number"),
        (dict(n_latent={"a": 0}), "n_latent must be a whole number of at least 1, got 0"),
        (dict(n_latent={"z": 2}), r"n_latent names labels that y does not hold: \['z'\]"),
        (dict(n_init=0), "n_init must be a whole number of at least 1, got 0"),
        (dict(c2=0.0), "c2 must be a positive number, got 0.0"),
        (dict(c2=float("nan")), "c2 must be a positive number, got nan"),
        (dict(solver="bbm"), "solver must be one of"),
        (dict(decoding="best"), "decoding must be one of"),
    ],
)
def test_bad_settings_are_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        LatentChainCRF(**settings).fit(X, Y)


def test_bad_data_are_refused():
    with pytest.raises(ValueError, match="nan"):
        LatentChainCRF(2).fit([[{"x": float("nan")}, {"x": 1.0}]], [["a", "b"]])
    with pytest.raises(ValueError, match="finite"):
        LatentChainCRF(2).fit(X, Y, np.full(len(X), np.nan))
    with pytest.raises(ValueError, match="the same for all tokens of a sequence"):
        LatentChainCRF(2).fit(X, Y, [np.linspace(1, 2, len(y)) for y in Y])
    with pytest.raises(ValueError, match="there is nothing to learn from"):
        LatentChainCRF(2).fit([], [])


@pytest.mark.parametrize("n_latent", [1, 2, {"a": 3}], ids=str)
def test_one_label_is_certain(n_latent):
    model = LatentChainCRF(n_latent, n_init=2).fit([[["x"], ["z"]], [["z"]]], [["a", "a"], ["a"]])
    assert model.result_.converged
    assert model.n_states_.tolist() == [1]
    assert model.predict([[["x"], ["y"]], []]) == [["a", "a"], []]
    assert model.predict_marginals([[["x"]]]) == [[{"a": 1.0}]]
    assert model.predict_latent([[["x"]]]) == [[("a", 0)]]


def test_more_states_than_tokens_stay_finite():
    model = LatentChainCRF(4, c2=0.1).fit([[["x"], ["z"]], [["z"]]], [["a", "b"], ["b"]])
    assert np.isfinite(model._weights.theta).all()
    assert model.predict([[["x"], ["z"]]]) == [["a", "b"]]


def test_lbfgs_reaches_as_low():
    ours, theirs = (LatentChainCRF(2, tol=1e-5, solver=solver).fit(X, Y) for solver in ("auto", "lbfgs"))
    assert ours.restarts_[0] <= theirs.restarts_[0] * 1.02


def test_large_values_do_not_make_a_wild_start():
    rng = np.random.default_rng(0)
    for scale in (1e-6, 1e3, 1e10):
        y = [rng.choice(["a", "b"], size=3).tolist() for _ in range(10)]
        sized = [[{"x": scale * (rng.normal() + (label == "a"))} for label in labels] for labels in y]
        model = LatentChainCRF(2, n_init=2).fit(sized, y)
        assert model.restarts_.max() <= 30 * np.log(2)
        assert np.isfinite(model._weights.theta).all()


@pytest.mark.parametrize("seed", range(3))
def test_fits_do_not_rest_where_states_are_alike(seed):
    """With a penalty so large copies of labels are all but stationary."""
    few, of_few = sentences(15)
    model = LatentChainCRF(2, c2=3.0, random_state=seed).fit(few, of_few)
    assert "left a saddle" in str(model.result_)
    assert "no saddle, as far as they tell" in str(model.result_)
    assert model.trace_["objective"][-1] == pytest.approx(75.82, rel=1e-3)  # the best of sixteen starts, solved to 1e-7
    assert (np.diff(model.trace_["objective"]) <= 0).all()
    assert model.trace_["passes"][-1] < 60


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_fit_goes_on_on_either_side_of_a_saddle(share, tmp_path):
    few, of_few = sentences(15)
    whole, path = LatentChainCRF(2, c2=3.0).fit(few, of_few), tmp_path / "model.npz"
    step = int(share * whole.n_iter_)

    def interrupt(row, theta):
        if row["step"] == step:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        LatentChainCRF(2, c2=3.0, callbacks=[Checkpoint(path, every=0), interrupt]).fit(few, of_few)
    again = LatentChainCRF(2, c2=3.0).fit(few, of_few, resume_from=path)
    np.testing.assert_array_equal(again._weights.theta, whole._weights.theta)
    np.testing.assert_array_equal(again.trace_["passes"], whole.trace_["passes"])
    assert str(again.result_) == str(whole.result_)


# --- against all paths ------------------------------------------------------------------------------------


class AllPaths:
    """Every path of states of some sequences, in long double: how often each weight of a model counts on it."""

    def __init__(self, model, X):
        many = zip(model.classes_.tolist(), model.n_states_.tolist(), strict=True)
        self.states = [(label, k) for label, states in many for k in range(states)]
        self.weights = {**model.state_features_, **model.transition_features_}
        place = {name: k for k, name in enumerate(self.weights)}
        self.theta = np.array(list(self.weights.values()), dtype=np.longdouble)
        self.each = []
        for tokens in X:
            every = list(itertools.product(self.states, repeat=len(tokens)))
            counts = np.zeros((len(every), len(place)), dtype=np.longdouble)
            for row, path in zip(counts, every, strict=True):
                for token, state in zip(tokens, path, strict=True):
                    for name, value in token.items():
                        if (name, state) in place:
                            row[place[name, state]] += value
                for step in itertools.pairwise(path):
                    if step in place:
                        row[place[step]] += 1
            self.each.append((every, counts))

    def probabilities(self):
        """The paths of each sequence, and how likely they are."""
        for every, counts in self.each:
            scores = counts @ self.theta
            yield every, np.exp(scores - np.logaddexp.reduce(scores))

    def objective(self, theta, y, weight, c2):
        total = c2 * (theta @ theta)
        for (every, counts), labels, w in zip(self.each, y, weight, strict=True):
            scores, own = counts @ theta, [[label for label, _ in path] == labels for path in every]
            total += w * (np.logaddexp.reduce(scores) - np.logaddexp.reduce(scores[own]))
        return total


def tiny(seed):
    """A few short sequences, and settings of a model for them."""
    rng = np.random.default_rng(seed)
    labels, names = ["a", "b", "c"][: rng.integers(1, 4)], ["p", "q", "r"][: rng.integers(1, 4)]
    size = 10.0 ** rng.integers(-2, 3)
    X, y = [], []
    for length in [*rng.integers(0, 4, size=3).tolist(), 3]:
        some = [[name for name in names if rng.random() < 0.6] for _ in range(length)]
        X.append([{name: float(size * rng.normal()) if seed % 2 else 1.0 for name in each} for each in some])
        y.append([str(label) for label in rng.choice(labels, size=length)])
    held = sorted({label for each in y for label in each})
    n_latent = int(rng.integers(1, 3)) if seed % 3 else {held[0]: int(rng.integers(1, 4))}
    settings = dict(
        c2=float(10.0 ** rng.uniform(-3, 2)),
        max_iter=int(rng.choice([2, 300])),
        all_possible_states=bool(rng.random() < 0.5),
        all_possible_transitions=bool(rng.random() < 0.5),
        random_state=seed,
    )
    return X, y, rng.exponential(size=len(X)), LatentChainCRF(n_latent, **settings)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("seed", range(60))
def test_models_are_what_all_paths_say(seed):
    X, y, weight, model = tiny(seed)
    model.fit(X, y, weight)
    paths = AllPaths(model, X)
    F = functools.partial(paths.objective, y=y, weight=weight, c2=model.c2)
    assert model.trace_["objective"][-1] == pytest.approx(float(F(paths.theta)), rel=1e-9, abs=1e-12)
    steps = 1e-6 * np.eye(len(paths.theta), dtype=np.longdouble)
    gradient = [(F(paths.theta + step) - F(paths.theta - step)) / 2e-6 for step in steps]
    size = float(np.sqrt(np.square(gradient).sum()))
    assert model.trace_["gradient_norm"][-1] == pytest.approx(size, rel=1e-5, abs=1e-7 * model.trace_["objective"][0])

    likeliest, marginals = model.predict_latent(X), model.predict_marginals(X)
    by_path = model.predict(X)
    by_token = model.set_params(decoding="marginal").predict(X)
    for j, (every, p) in enumerate(paths.probabilities()):
        assert by_path[j] == [label for label, _ in likeliest[j]]
        assert p[every.index(tuple(likeliest[j]))] >= p.max() * (1 - 1e-9)
        for t, found in enumerate(marginals[j]):
            of_labels = {c: float(p[[path[t][0] == c for path in every]].sum()) for c in model.classes_.tolist()}
            assert found == pytest.approx(of_labels, abs=1e-10)
            assert of_labels[by_token[j][t]] >= max(of_labels.values()) - 1e-9
