"""Random problems for the estimators besides ``LogisticRegression``, held against long double and enumeration.

    python -m tests.fuzz_estimators [--problems 600] [--first 0]

``make fuzz`` runs it; some are a test. ``judge(seed)`` returns what is wrong, each as a sentence: an exception, a
certificate below the truth, or an end that is called converged and is none.
"""

from __future__ import annotations

import argparse
import sys
import traceback
import warnings
from collections import Counter
from itertools import product

import numpy as np
from scipy.special import logsumexp

from majorant import ChainCRF, Choices, ConditionalLogit, Enumerated, LatentLogisticRegression, Objective
from tests.truth import Truth

# Relative to F: what double precision may leave of a certificate.
ROUNDING = 1e-9


def judge(seed):
    """Return what is wrong with a fit, and of which estimator it is."""
    r = np.random.default_rng(seed)
    estimator = (choices, chains, latent)[seed % 3]
    try:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            found = list(estimator(r))
    except Exception:
        found = [f"exception: {traceback.format_exc(limit=-2)}"]
        heard = []
    found += [f"wrong warning: {each.message}" for each in heard if not issubclass(each.category, UserWarning)]
    return found, estimator.__name__


def choices(r):
    """Fit a conditional logit of choice sets of any size, columns in any units, with or without all else there is."""
    groups, p = int(r.integers(8, 60)), int(r.integers(1, 5))
    sizes = r.integers(2, 5, size=groups)
    row = np.repeat(np.arange(groups), sizes)
    Z = r.normal(size=(len(row), p))
    utility = Z @ r.normal(size=p) + r.gumbel(size=len(row))
    chosen = np.array([np.argmax(utility[row == group]) for group in range(groups)])
    X = Z * 10.0 ** r.uniform(-9, 9, size=p) if r.random() < 0.5 else Z
    first = np.cumsum(sizes) - sizes
    y = np.zeros(len(row))
    y[first + chosen] = 1.0
    weight = 10.0 ** r.uniform(-6, 6, size=groups) if r.random() < 0.3 else None
    offset = r.choice([-1.0, 1.0], size=len(row)) * r.choice([1.0, 30.0]) if r.random() < 0.3 else None
    C = float(10 ** r.uniform(-3, 3)) if r.random() < 0.4 else np.inf
    solver = str(r.choice(["auto", "auto", "lbfgs", "bbm"]))
    model = ConditionalLogit(C=C, solver=solver)
    given = {} if weight is None else {"sample_weight": weight[row]}
    model.fit(X, y, row, offset=offset, **given)
    data = Choices(X, sizes, chosen=chosen, weight=weight, log_measure=offset)
    ridge = np.full(p, 0.0 if np.isinf(C) else 1.0 / C)
    yield from held(Objective(Enumerated(), data, ridge=ridge), model.coef_, model)


def chains(r):
    """Fit chains of up to five tokens, of which every labelling is written out."""
    labels, attributes, count = int(r.integers(1, 4)), int(r.integers(1, 5)), int(r.integers(1, 9))
    lengths = r.integers(1, 6, size=count)
    X = [
        [{f"a{k}": float(r.choice([1.0, 0.5, 3.0])) for k in range(attributes) if r.random() < 0.6} for _ in range(t)]
        for t in lengths
    ]
    X[0][0].setdefault("a0", 1.0)  # data without any feature are refused
    Y = [[f"l{r.integers(labels)}" for _ in range(t)] for t in lengths]
    told = r.random() < 0.3
    if told:  # labels that attributes tell: F is then tiny beside the scores that it is left of
        for tokens, observed in zip(X, Y, strict=True):
            for token, label in zip(tokens, observed, strict=True):
                token[f"is {label}"] = float(r.choice([1.0, 0.5, 3.0]))
    c2, tol = float(10 ** r.uniform(-4, 3)), float(10 ** r.uniform(-8, -3))
    given = dict(all_possible_states=bool(r.integers(2)), all_possible_transitions=bool(r.integers(2)))
    model = ChainCRF(c2=c2, solver=str(r.choice(["auto", "auto", "lbfgs", "bbm"])), tol=tol, **given)
    weight = None
    if told or r.random() < 0.3:  # as far from the penalty as rounding of F and more
        weight = 10.0 ** r.uniform(-6, 6, size=count)
        model.c2 = float(10 ** (r.uniform(-9, -2) if told else r.uniform(-9, 3)))
    model.fit(X, Y, sample_weight=weight)
    places = {key: k for k, key in enumerate([*model.state_features_, *model.transition_features_])}
    theta = np.array([*model.state_features_.values(), *model.transition_features_.values()])
    features, chosen = [], []
    for tokens, observed in zip(X, Y, strict=True):
        paths = list(product(model.classes_.tolist(), repeat=len(tokens)))
        chosen.append(paths.index(tuple(observed)))
        features += [written_out(tokens, path, places) for path in paths]
    sizes = [len(model.classes_) ** len(tokens) for tokens in X]
    data = Choices(np.array(features).reshape(sum(sizes), len(theta)), sizes, chosen=chosen, weight=weight)
    if len(theta):
        yield from held(Objective(Enumerated(), data, ridge=2 * model.c2), theta, model)


def written_out(tokens, path, places):
    """Return f(x, y) of one labelling."""
    features = np.zeros(len(places))
    for t, (token, label) in enumerate(zip(tokens, path, strict=True)):
        for attribute, value in token.items():
            if (attribute, label) in places:
                features[places[attribute, label]] += value
        if t and (path[t - 1], label) in places:
            features[places[path[t - 1], label]] += 1.0
    return features


def latent(r):
    """Fit logistic regression with hidden states: F is what is said, and no step rises."""
    t, p, n = int(r.integers(10, 80)), int(r.integers(1, 5)), int(r.integers(2, 4))
    X = r.normal(size=(t, p)) * 10.0 ** r.uniform(-2, 2, size=p)
    y = r.integers(0, n, size=t)
    y[: 2 * n] = np.arange(2 * n) % n  # a class has as many rows as states
    weight = r.integers(0, 4, size=t).astype(float) if r.random() < 0.3 else np.ones(t)
    weight[: 2 * n] = 1.0
    C = float(10 ** r.uniform(-3, 3))
    model = LatentLogisticRegression(n_latent=2, C=C, n_init=1, random_state=int(r.integers(100)))
    model.fit(X, y, sample_weight=weight)
    joint = np.log(np.maximum(model.predict_joint_proba(X), 1e-300)).reshape(t, n, 2)
    value = -weight @ logsumexp(joint, axis=2)[np.arange(t), y] + 0.5 / C * float(np.square(model.coef_).sum())
    said = model.trace_["objective"]
    if not np.isclose(said[-1], value, rtol=1e-6):
        yield f"another value: {said[-1]} is {value}"
    if (np.diff(said) > 1e-9 * np.abs(said[:-1])).any():
        yield f"F rises: {said}"
    if not np.isfinite(model.coef_).all():
        yield "not finite"


def held(F, theta, model):
    """Yield what long double does not confirm of a fitted model."""
    if not np.isfinite(theta).all():
        yield "not finite"
        return
    truth, theta = Truth(F), np.asarray(theta, dtype=np.float64)
    value, gap = truth.value(theta), model.gap_
    best = truth.value(truth.optimum(theta))
    excess = float((value - best) / max(value, np.longdouble(1e-300)))
    if gap < excess - ROUNDING:
        yield f"false certificate: {gap:.2e}, truth {excess:.2e} ({model.result_})"
    if model.result_.converged and excess > max(model.tol, 1e-6) + ROUNDING:
        yield f"not optimal: truth {excess:.2e} ({model.result_})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=600)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    kinds, wrong = Counter(), 0
    for seed in range(chosen.first, chosen.first + chosen.problems):
        found, kind = judge(seed)
        kinds[kind] += 1
        wrong += bool(found)
        for complaint in found:
            sys.stdout.write(f"seed {seed}, {kind}: {complaint}\n")
    sys.stdout.write(f"{chosen.problems} problems, {wrong} wrong: {dict(kinds)}\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
