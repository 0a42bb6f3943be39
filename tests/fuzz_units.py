"""Random problems, and the same with columns in other units: verdicts, estimates and their errors must not change.

    python -m tests.fuzz_units [--problems 500] [--first 0]

``make fuzz`` runs it; a few dozen are a test. X·diag(s) with s over 10^±12 has the coefficients θ/s; a feature penalty
of f becomes f·s².
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import Counter

import numpy as np
import scipy.sparse as sp

from majorant import ConditionalLogit, LogisticRegression

KINDS = ("plain", "dependent", "constant", "separated", "quasi", "counts")
SOLVERS = ("auto", "auto", "auto", "newton", "bbm")


def judge(seed):
    """Return what is not the same in other units, as sentences, and what kind of problem it was."""
    r = np.random.default_rng(seed)
    choice = r.random() < 0.25
    Z, y, kind = _choices(r) if choice else _labelled(r)
    p = Z.shape[1]
    s = 10.0 ** r.uniform(-12, 12, size=p) if r.random() < 0.7 else 2.0 ** r.integers(-40, 41, size=p)
    if choice:
        one, other = (_fit(ConditionalLogit(), X, y, np.arange(len(y)) // 3) for X in (Z, Z * s))
    else:
        solver, constant, sparse = str(r.choice(SOLVERS)), bool(r.random() < 0.8), r.random() < 0.25
        penalty = r.choice([0.0, 1.0], size=p) if r.random() < 0.4 else np.zeros(p)
        C = 1.0 if penalty.any() else np.inf
        one, other = (
            _fit(
                LogisticRegression(C=C, solver=solver, fit_intercept=constant, feature_penalty=penalty * unit**2),
                sp.csr_array(X) if sparse else X,
                y,
            )
            for X, unit in ((Z, np.ones(p)), (Z * s, s))
        )
    return list(_differences(*one, *other, y, s, Z, choice)), kind


def _labelled(r):
    t, p, n = int(r.integers(12, 400)), int(r.integers(1, 7)), int(r.choice([2, 2, 3, 4]))
    kind, Z = str(r.choice(KINDS)), r.normal(size=(t, p))
    Z = r.poisson(1.0, size=(t, p)).astype(float) if kind == "counts" else Z
    y = np.argmax(Z @ r.normal(size=(p, n)) * r.choice([0.5, 1, 3]) + r.gumbel(size=(t, n)), axis=1)
    y[:n] = np.arange(n)
    if kind == "dependent":
        Z = np.column_stack([Z, Z[:, 0] * 2.0 ** r.integers(-3, 4)])
    elif kind == "constant":
        Z = np.column_stack([Z, np.full(t, 2.0 ** r.integers(-3, 4))])
    elif kind == "separated":
        Z[:, 0] = np.abs(Z[:, 0]) * np.where(y == 0, -1, 1)
    elif kind == "quasi":
        Z = np.column_stack([Z, (y == 0) & (r.random(t) < 0.5)])
    return Z, y, kind


def _choices(r):
    """Return three alternatives a group; choices are separated by a column, or are not."""
    groups, p = int(r.integers(15, 120)), int(r.integers(1, 5))
    Z, kind = r.normal(size=(3 * groups, p)), str(r.choice(["plain", "separated"], p=[0.8, 0.2]))
    utility = (Z @ r.normal(size=p) + r.gumbel(size=3 * groups)).reshape(groups, 3)
    chosen = (utility == utility.max(axis=1, keepdims=True)).ravel()
    if kind == "separated":
        Z[:, 0] = np.abs(Z[:, 0]) * np.where(chosen, 1, -1)
    return Z, chosen.astype(float), kind


def _fit(model, *data):
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.fit(*data)
    return model, heard


def _differences(one, heard, other, heard_then, y, s, Z, choice):
    """Yield what differs, if estimates differ by more than both models say that they are off."""
    data, data_then = ((), ()) if choice else ((Z, y), (Z * s, y))
    before, after = _verdict(one, heard), _verdict(other, heard_then)
    if before != after:
        yield f"another verdict: {before} became {after}"
        return
    if not one.result_.converged:
        return
    error, error_then = one.coef_error_, other.coef_error_ * s
    if not np.array_equal(np.isfinite(error), np.isfinite(error_then)):
        yield f"another coef_error_: {error} became {error_then}"
    known = np.isfinite(error) & np.isfinite(error_then)
    off = np.abs(one.coef_ - other.coef_ * s)[known]
    if (off > 1.01 * (error + error_then)[known] + 1e-9 * np.abs(one.coef_)[known]).any():
        yield f"other coefficients: {one.coef_} became {other.coef_ * s}"
    if not choice and np.abs(one.predict_proba(Z) - other.predict_proba(Z * s)).max() > 1e-4:
        yield "other probabilities"
    if choice or np.isinf(one.C):
        of_class = np.append(1.0, s) if getattr(one, "fit_intercept", False) else s  # an intercept comes first
        errors, errors_then = (model.summary(*rows).std_errors for model, rows in ((one, data), (other, data_then)))
        if not np.allclose(errors, errors_then * np.tile(of_class, len(errors) // len(of_class)), rtol=1e-4):
            yield f"other standard errors: {errors} became {errors_then}"


def _verdict(model, heard):
    """Return the outcome, whether ``tol`` is certified, and all that is said, less numbers."""
    said = {str(model.result_), *(str(warning.message) for warning in heard)}
    words = {re.sub(r"\d+ steps?|\d\.\de[-+]\d+", "#", each) for each in said}
    return model.result_.outcome.value, bool(model.gap_ <= model.tol), sorted(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--problems", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    chosen = parser.parse_args()
    kinds, wrong = Counter(), 0
    for seed in range(chosen.first, chosen.first + chosen.problems):
        found, kind = judge(seed)
        kinds[kind] += 1
        wrong += bool(found)
        for complaint in found:
            sys.stdout.write(f"seed {seed}, {kind}: {complaint}\n")
    sys.stdout.write(f"{chosen.problems} rescalings, {wrong} with a difference: {dict(kinds)}\n")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
