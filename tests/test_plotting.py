"""Curves: what is averaged, what is drawn, what is refused."""

import subprocess
import sys

import numpy as np
import pytest

from majorant import plotting


def run(solver, seed, x, y, column="test_error"):
    return {"solver": solver, "seed": seed, "trace": {"passes": x, "cpu_seconds": x, column: y}}


def test_runs_of_equal_length_are_averaged_entry_by_entry():
    runs = [run("SGD", 0, [0.0, 1.0], [0.4, 0.2]), run("SGD", 1, [0.0, 3.0], [0.6, 0.4])]
    curve = plotting.curves_of(runs, "passes", "test_error")["SGD"]
    np.testing.assert_allclose(curve.x, [0, 2])
    np.testing.assert_allclose(curve.mean, [0.5, 0.3])
    np.testing.assert_allclose(curve.spread, [0.1, 0.1])


def test_a_run_that_ended_early_keeps_its_last_value():
    runs = [run("LBFGS", 0, [0.0, 1.0], [1.0, 0.0]), run("LBFGS", 1, [0.0, 1.0, 4.0], [1.0, 0.0, 0.5])]
    curve = plotting.curves_of(runs, "passes", "test_error")["LBFGS"]
    assert curve.x[-1] == 4.0
    assert curve.mean[-1] == pytest.approx(0.25)


def test_a_logarithmic_axis_has_no_zero():
    curve = plotting.curves_of([run("SBM", 0, [0.0, 0.1, 1.0], [1.0, 0.5, 0.2])], "cpu_seconds", "test_error")["SBM"]
    np.testing.assert_allclose(curve.x, [0.1, 1.0])


def test_a_solver_always_looks_the_same_and_no_two_alike():
    alone, together = plotting.styles_of(["SBM"]), plotting.styles_of(["sgd", "SGD 1e-7", "mine", "sbm k = 1"])
    assert together["sbm k = 1"] == alone["SBM"]
    assert len(set(map(str, together.values()))) == 4


def test_figures_are_written(tmp_path):
    runs = [run(s, k, [0.0, 1.0, 2.0], [0.9, 0.3, 0.2 + 0.01 * k]) for s in ("SGD", "SBM") for k in range(3)]
    plain = plotting.draw_curves(runs, tmp_path / "plain.png", title="three runs")
    zoomed = plotting.draw_curves(runs, tmp_path / "zoomed.png", x="cpu_seconds", zoom=True)
    assert plain.stat().st_size > 5_000
    assert zoomed.stat().st_size > plain.stat().st_size  # a second row


def test_a_diverging_solver_does_not_flatten_the_others():
    good, bad = [-2.0, -0.5, -0.4], [-2.0, -50.0, -900.0]
    runs = [run("SBM", 0, [0, 1, 2], good, "test_log_likelihood"), run("SGD", 0, [0, 1, 2], bad, "test_log_likelihood")]
    low, high = plotting._without_divergence(
        plotting.curves_of(runs, "passes", "test_log_likelihood"), "test_log_likelihood"
    )
    assert -6 < low < -2
    assert -0.4 < high < 0


def test_unknown_panels_are_refused(tmp_path):
    with pytest.raises(ValueError, match="panels must name columns"):
        plotting.draw_curves([run("SGD", 0, [0], [1])], tmp_path / "no.png", panels=["nothing"])


def test_without_matplotlib_the_extra_is_named():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from majorant.plotting import pyplot\n"
        "try: pyplot()\nexcept ImportError as problem: print(problem)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "majorant[plot]" in done.stdout
