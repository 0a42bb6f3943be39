"""Verdicts on made-up runs: each claim is made to hold, and made to fail."""

import numpy as np
import pytest

from reproduction import claims
from reproduction.study import Study


def run(solver, objective, seed=0, outcome="step limit", **columns):
    x = list(np.arange(float(len(objective))))
    constant = {name: v * len(x) if len(v) == 1 else v for name, v in columns.items()}
    trace = {"passes": x, "cpu_seconds": [0.1 * v for v in x], "objective": list(objective), **constant}
    return {"solver": solver, "seed": seed, "outcome": outcome, "trace": trace}


def study(runs, name="ecoli", optimum=0.0, passes=4.0, **at_optimum):
    columns = {column: [value] for column, value in at_optimum.items()}
    best = {"solver": "optimum", "seed": 0, "outcome": "converged", "trace": {"objective": [optimum], **columns}}
    return Study({"name": name, "title": name, "passes": passes, "runs": 1}, (best, *runs))


FAST, MEDIUM, SLOW = [100, 1, 0.5, 0.2, 0.1], [100, 50, 20, 4, 1], [100, 90, 80, 70, 60]
RISING = [100, 50, 60, 20, 30]


def raced(sbm, sgd, asgd, tuned=None):
    runs = [run("SBM", sbm), run("SGD", sgd), run("ASGD", asgd)]
    return study(runs + ([] if tuned is None else [run("SGD tuned", tuned)]))


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (raced(FAST, SLOW, MEDIUM), "holds"),
        (raced(MEDIUM, SLOW, SLOW, tuned=FAST), "holds only if SGD and ASGD keep the paper's gains"),
        (raced(MEDIUM, SLOW, FAST), "does not hold"),
        (raced(SLOW, SLOW, SLOW), "does not hold"),
        (raced([100, 1, 50, 50, 50], MEDIUM, SLOW), "holds only if coming near once counts, not staying there"),
        (
            raced([100, 1, 50, 50, 50], MEDIUM, SLOW, tuned=[100, 1, 1, 1, 1]),
            "holds only if SGD and ASGD keep the paper's gains, and coming near once counts, not staying there",
        ),
    ],
    ids=["holds", "only against the paper's gains", "slower", "never there", "does not stay", "neither"],
)
def test_fewer_passes_and_less_cpu_time(given, verdict):
    assert claims.fewer_passes(given).verdict == verdict
    assert claims.fastest(given).verdict == verdict


def test_converged_means_that_it_stays():
    leaving = [100, 1, 50, 4, 1]
    assert study([run("SBM", leaving)]).reach("SBM", 0.05) == 3
    assert study([run("SBM", leaving)]).reach("SBM", 0.05, stays=False) == 1
    assert study([run("SBM", FAST)]).reach("SBM", 0.05) == 1
    at_the_very_end = [100, 50, 50, 50, 1]
    assert study([run("SBM", at_the_very_end)]).reach("SBM", 0.05) == np.inf
    assert study([run("SBM", at_the_very_end, outcome="converged")]).reach("SBM", 0.05) == 4
    assert study([run("SBM", FAST)]).reach("SBM", 0.05, "cpu_seconds") == pytest.approx(0.1)
    assert study([run("SBM", FAST, outcome="non-finite")]).reach("SBM", 0.05) == np.inf


@pytest.mark.parametrize(
    ("objective", "error", "verdict"),
    [(FAST, 0.1, "holds"), (MEDIUM, 0.1, "holds only if the training error"), (MEDIUM, 0.4, "does not hold")],
)
def test_a_single_pass(objective, error, verdict):
    sbm = run("SBM", objective, train_error=[0.5, error, error, error, error])
    given = study([sbm, run("proximal", FAST)], train_error=0.1)
    assert claims.single_pass(given).verdict.startswith(verdict)


@pytest.mark.parametrize(
    ("sgd", "tuned", "verdict"),
    [(0.48, 0.47, claims.BUILT), (0.48, 0.15, "holds only if the gains"), (0.2, 0.2, "does not hold")],
)
def test_stuck(sgd, tuned, verdict):
    ends = {"SGD": sgd, "ASGD": 0.48, "SGD tuned": tuned}
    given = study([run(label, SLOW, train_error=[end]) for label, end in ends.items()], train_error=0.1)
    assert claims.stuck(given).verdict.startswith(verdict)


@pytest.mark.parametrize(
    ("given", "larger", "verdict"), [(SLOW, [100, 300], claims.BUILT), ([100, 300], SLOW, "does not")]
)
def test_unstable(given, larger, verdict):
    first = study([run("SGD", given), run("ASGD", SLOW)])
    assert claims.unstable(first, study([run("SGD 1e-7", larger)])).verdict.startswith(verdict)


@pytest.mark.parametrize(
    ("updates", "passes", "verdict"),
    [
        (FAST, MEDIUM, "holds"),
        (FAST, RISING, "holds only if one stops before pass 2"),
        (RISING, RISING, "does not hold"),
    ],
)
def test_monotone(updates, passes, verdict):
    fine = study([run("SBM", updates), run("SGD", RISING), run("ASGD", RISING)])
    found = claims.monotone(fine, study([run("SBM", passes)]))
    assert found.verdict == verdict
    assert "SGD 50.0%" in found.measured


def ended(column, sbm, sgd, tuned=None):
    labels = {"SBM": sbm, "SGD": sgd, "ASGD": sgd} | ({} if tuned is None else {"SGD tuned": tuned})
    runs = [run(k, FAST, seed, **{column: [v + 0.001 * seed]}) for k, v in labels.items() for seed in range(3)]
    return study(runs, **{column: 0.0})


@pytest.mark.parametrize(("column", "good", "bad"), [("test_log_likelihood", -0.3, -0.5), ("test_error", 0.1, 0.2)])
def test_better_on_test_data(column, good, bad):
    assert claims.better(ended(column, good, bad), column).verdict == "holds"
    assert claims.better(ended(column, good, bad, tuned=good), column).kind == "holds only if"
    lost = claims.better(ended(column, bad, good), column)
    assert lost.verdict == "does not hold"
    assert lost.why == "SGD and ASGD end better"
    same = claims.better(ended(column, good, good), column)
    assert same.verdict == "does not hold"
    assert "no more than the spread" in same.why


@pytest.mark.parametrize(
    ("objective", "verdict"),
    [(FAST, "holds"), (SLOW, "holds only if not diverging is enough"), ([100, 500], "does not hold")],
)
def test_no_tuning(objective, verdict):
    given = [study([run("SBM", FAST)]), study([run("SBM", objective)], name="mnist")]
    assert claims.no_tuning(given).verdict == verdict


@pytest.mark.parametrize(
    ("bbm", "verdict", "why"),
    [([100, 50], "holds", "factor"), ([100, 1], "does not", "better, not"), ([100, 99], "does not", "differ by more")],
)
def test_batch_is_comparable(bbm, verdict, why):
    runs = [run("BBM", bbm), run("SBM", FAST), run("SGD", [100, 40]), run("ASGD", [100, 45])]
    found = claims.batch_comparable(study(runs))
    assert found.verdict.startswith(verdict)
    assert why in found.why


def test_missing_sets_are_not_judged():
    missing = Study({"name": "gisette", "title": "gisette", "missing": "it is not here"}, ())
    assert claims.findings({"gisette": missing}) == []
    both = claims.findings({"gisette": missing, "text": _text()})
    assert {finding.where for finding in both} == {"text"}


def _text():
    columns = {"test_error": [0.1], "test_log_likelihood": [-0.1]}
    runs = [run(label, FAST, **columns) for label in ("SBM", "SGD", "ASGD")]
    return study(runs, name="text", test_error=0.1, test_log_likelihood=-0.1)
