"""How outputs of examples are compared (``conftest.py``), and what the README looks like where it is published."""

from pathlib import Path

import pytest
from readme_renderer import markdown

from conftest import is_close

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("converged in 6 steps; within 1.1e-12 of", "converged in 7 steps; within 3e-17 of"),
        ("within 7.3e-07 standard errors", "within 2.1e-05 standard errors"),
        ("array([-0.72, -0.21])", "array([-0.72,  -0.22])"),
        ("4.4e-04", "4.5e-04"),
        ("a  0.05\nb  1", "a 0.0502\nb    1"),
    ],
)
def test_numbers_that_are_close_agree(expected, printed):
    assert is_close(expected, printed)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("(8, 7)", "(8, 8)"),
        ("within 7.3e-07 of", "within 2.1e-03 of"),
        ("0.83", "0.80"),
        ("4.4e-04", "4.4e-03"),
        ("x 1.0", "y 1.0"),
        ("x2 1.0", "x3 1.0"),
        ("1e-12", "1e-6"),
        ("[1.0, 2.0]", "[1.0]"),
        ("-0.5", "0.5"),
        ("converged in 6 steps", "stopped at the limit of 6 steps"),
    ],
)
def test_other_outputs_differ(expected, printed):
    assert not is_close(expected, printed)


def test_the_readme_fits_a_screen_and_needs_no_mathematics_renderer():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert "$" not in text


def test_the_readme_is_rendered_as_an_index_renders_it():
    html = markdown.render((ROOT / "README.md").read_text(encoding="utf-8"))
    assert html is not None
    assert html.count("<table>") == 2
    assert html.count("<pre") >= 6
    assert "```" not in html
    assert html.startswith("<h1")
