"""What notebooks show: estimators and what their results say, tables as HTML, and one call for a plot."""

from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn import config_context

import majorant
from majorant.core import result

X, y = majorant.datasets.load("ecoli")
OBJECTIVE = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
ESTIMATORS = {
    "LogisticRegression": lambda: majorant.LogisticRegression().fit(X, y),
    "LinearProbe": lambda: majorant.LinearProbe().fit(X, y),
    "LatentLogisticRegression": lambda: majorant.LatentLogisticRegression(n_latent=2, n_init=1).fit(X, y),
    "ChainCRF": lambda: majorant.ChainCRF().fit([[{"a": 1.0}, {"b": 1.0}]] * 3, [["x", "y"]] * 3),
    "ConditionalLogit": lambda: majorant.ConditionalLogit().fit(
        np.arange(9.0)[:, None] % 4, [0, 0, 1] * 3, [0, 0, 0, 1, 1, 1, 2, 2, 2]
    ),
}


class Balance(HTMLParser):
    """Raises where tags do not close in order."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(html):
    """Return HTML whose tags close."""
    balance = Balance()
    balance.feed(html)
    assert balance.open == []
    return html


@pytest.fixture(scope="module")
def solution():
    return majorant.minimize(OBJECTIVE, majorant.BatchMajorization(), tol=1e-6)


@pytest.fixture
def axes():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    yield plt.subplots()[1]
    plt.close("all")


@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators_show_the_diagram_and_then_the_sentence(name):
    model = ESTIMATORS[name]()
    sentence = result.paragraph(str(model.result_))
    bundle = model._repr_mimebundle_()
    for html in (model._repr_html_(), bundle["text/html"]):
        assert "sk-top-container" in html
        assert html.endswith(sentence)
        assert html.count(sentence) == 1
    assert bundle["text/plain"] == repr(model)
    fresh = type(model)()
    assert not fresh._repr_html_().endswith("</p>")
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()
        assert not hasattr(model, "_repr_html_")


def test_results_and_traces_are_tables(solution):
    html = checked(solution._repr_html_())
    assert str(solution.result) in html
    assert "BatchMajorization(" in html
    assert checked(solution.trace._repr_html_()).count("<tr>") == 1 + solution.trace.entries
    account = majorant.LogisticRegression().fit(X, y).result_
    assert checked(account._repr_html_()).count("<tr>") == 1 + len(account.account)
    assert result.paragraph("a < b") == majorant.Result(majorant.Outcome.STALLED, "a < b", np.nan)._repr_html_()


def test_long_traces_show_both_ends():
    trace = majorant.Trace()
    for k in range(100):
        trace.append({"step": k, "objective": 0.5})
    html = checked(trace._repr_html_())
    assert html.count("<tr>") == 1 + 20 + 1
    assert "<td>9</td>" in html
    assert "<td>90</td>" in html
    assert "<td>50</td>" not in html


def test_tables_of_fits():
    path = majorant.logistic_regression_path(X, y, Cs=[0.1, 1.0])
    assert checked(path._repr_html_()).count("<tr>") == 3
    grid = dict(schedules=("constant",), gains=(1e-3, 1e-2), batch_sizes=(10,))
    tuned = majorant.tune(OBJECTIVE, **grid)
    assert f"<th>{tuned.objective:.6g}</th>" in checked(tuned._repr_html_())
    starts = majorant.minimize_from(OBJECTIVE, None, [np.zeros(64), np.ones(64)])
    assert result.paragraph(str(starts.result)) in checked(starts._repr_html_())


def test_text_is_escaped():
    assert "<script>" not in result.table(("<script>",), [("<script>",)])


def test_a_certified_fit_is_drawn_by_how_far_it_was_from_the_optimum_at_most(axes, solution):
    drawn = majorant.plot(solution, ax=axes)
    assert drawn is axes
    (line,) = axes.get_lines()
    exact = majorant.minimize(OBJECTIVE, majorant.Newton(), tol=1e-12).trace["objective"][-1]
    F = solution.trace["objective"]
    assert (line.get_ydata() >= (F - exact) / F).all()
    assert line.get_ydata()[-1] == pytest.approx(solution.result.gap)
    np.testing.assert_array_equal(line.get_xdata(), solution.trace["passes"])
    assert axes.get_yscale() == "log"
    assert axes.get_title(loc="left") == str(solution.result)


def test_what_has_no_certificate_is_drawn_above_the_lowest(axes):
    majorant.plot({"step": np.arange(3), "objective": np.array([4.0, 2.0, 1.0])}, ax=axes)
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), [3.0, 1.0, np.nan])
    assert axes.get_xlabel() == "step"
    assert axes.get_title(loc="left") == ""


def test_columns_are_drawn_as_they_are(axes, solution):
    majorant.plot(solution.trace, y="gradient_norm", x="seconds", ax=axes)
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), solution.trace["gradient_norm"])
    assert axes.get_yscale() == "linear"


def test_a_fit_of_one_value_can_be_drawn(axes):
    majorant.plot({"step": [0], "objective": [1.0]}, ax=axes)
    assert axes.get_yscale() == "linear"


def test_plots_say_what_they_cannot_draw(axes, solution):
    with pytest.raises(ValueError, match="LogisticRegression has none: call fit first"):
        majorant.plot(majorant.LogisticRegression())
    with pytest.raises(ValueError, match=r"y must be a column of the trace, step, passes.*got 'loss'"):
        majorant.plot(solution, y="loss", ax=axes)
