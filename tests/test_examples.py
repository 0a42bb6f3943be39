"""How outputs of examples are compared, what an index shows of the README, and whether figures agree with tables."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from readme_renderer import markdown

from conftest import is_close
from examples.benchmark_figures import FIGURES, described
from examples.solver_figure import measured

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


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_and_the_table_beside_it_have_the_same_numbers(name, tmp_path):
    numbers, draw = FIGURES[name]
    found = numbers()
    assert len(found) >= 2
    assert all(any(np.isfinite(list(row.values()))) for row in found.values())
    assert Image.open(ROOT / f"docs/figures/{name}.png").text["Description"] == described(found)
    draw(tmp_path / "figure.png", found)
    assert Image.open(tmp_path / "figure.png").text["Description"] == described(found)


def test_the_figure_of_solvers_has_the_numbers_of_the_benchmarks():
    kept = Image.open(ROOT / "docs/figures/solvers.png").text["Description"]
    assert kept == json.dumps(measured(), sort_keys=True)
    assert "geometric mean 0.32" in kept


def test_a_table_that_changes_no_longer_agrees_with_its_figure():
    numbers, _ = FIGURES["chain"]
    found = numbers()
    before = described(found)
    found["set-up"]["majorant"] += 0.1
    assert described(found) != before


def test_results_of_the_readme_are_those_of_the_benchmarks():
    """Every number with a unit in the table of results stands in the pages that the commands belong to."""
    pages = "".join((ROOT / "docs" / name).read_text("utf-8") for name in ("benchmarks.md", "choice.md", "probe.md"))
    table = (ROOT / "README.md").read_text("utf-8").split("## Results", 1)[1].split("\n\n")[1]
    known = set(re.findall(r"\d+(?:\.\d+)?", pages))
    numbers = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?= s\b| ms\b| %)", table)
    assert len(numbers) >= 8
    assert [number for number in numbers if number not in known] == []
