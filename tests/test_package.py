"""The package as a whole: what is public, what importing costs, what the examples do."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

import majorant

ROOT = Path(__file__).parent.parent


def test_every_public_name_exists_and_is_documented():
    for name in majorant.__all__:
        assert getattr(majorant, name).__doc__, name
    assert dir(majorant) == sorted(majorant.__all__)


def test_version_is_that_of_the_project():
    """The module has it and the project reads it there; what people cite and what changed has to agree."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version", "readme"]
    assert project["tool"]["hatch"]["version"]["path"] == "majorant/__init__.py"
    newest, dated = re.search(
        r"^## (\S+)(?: - (\d{4}-\d\d-\d\d))?$", (ROOT / "CHANGELOG.md").read_text(), re.M
    ).groups()
    cited = dict(re.findall(r"^(version|date-released): (\S+)$", (ROOT / "CITATION.cff").read_text(), re.M))
    if newest != "Unreleased":
        assert (newest, dated) == (majorant.__version__, cited["date-released"])
    assert cited["version"] == majorant.__version__


def test_the_recipe_of_conda_has_the_dependencies_of_the_project():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    recipe = yaml.safe_load((ROOT / "recipe/recipe.yaml").read_text())
    of_project = project["project"]
    assert recipe["context"]["version"] == majorant.__version__
    assert of_project["requires-python"] == f">={recipe['context']['python_min']}"
    python, *run = recipe["requirements"]["run"]
    assert python == "python >=${{ python_min }}"
    needed = [*of_project["dependencies"], *of_project["optional-dependencies"]["cli"]]
    assert [line.replace(" ", "") for line in run] == needed
    host = [line.replace(" ", "") for line in recipe["requirements"]["host"]]
    assert set(project["build-system"]["requires"]) <= set(host)
    assert recipe["about"]["summary"] == of_project["description"]
    assert recipe["about"]["license"] == of_project["license"]
    script, command = recipe["build"]["python"]["entry_points"][0].split(" = ")
    assert of_project["scripts"] == {script: command}


def test_the_commands_that_the_recipe_tests_work():
    recipe = yaml.safe_load((ROOT / "recipe/recipe.yaml").read_text())
    version, fit = recipe["tests"][1]["script"]
    assert majorant.__version__ in run("-m", *version.split())
    run("-c", re.fullmatch(r'python -c "(.*)"', fit)[1])


def test_nothing_outside_the_command_line_knows_a_flag():
    for path in (ROOT / "majorant").rglob("*.py"):
        if "cli" not in path.parts:
            assert not re.search(r"(?<![\w-])--[a-zA-Z]", path.read_text()), path


def test_importing_loads_no_compiler():
    code = "import sys, majorant; print(sorted({'numba', 'sklearn', 'matplotlib'} & set(sys.modules)))"
    assert run("-c", code).strip() == "[]"


def test_fits_need_no_place_to_keep_what_was_compiled(tmp_path):
    """A file where the cache would be, and no home: more than even root can write to."""
    package = tmp_path / "majorant"
    shutil.copytree(ROOT / "majorant", package, ignore=shutil.ignore_patterns("__pycache__"))
    for folder in ("core", "chain"):
        (package / folder / "kernels" / "__pycache__").write_text("")
    nowhere = {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null", "PYTHONDONTWRITEBYTECODE": "1"}
    code = (
        "import majorant\n"
        "from majorant.chain.kernels import dual, forward_backward, latent, online, paths\n"
        "from majorant.core.kernels import compiler, logistic, products, softmax, stochastic\n"
        "assert majorant.LogisticRegression().fit([[0.0], [1.0]], [0, 1]).predict([[9.0]]) == [1]\n"
        "print(majorant.__file__, compiler._can_keep())"
    )
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "PYTHONPATH")}
    said = run("-c", code, cwd=tmp_path, env=kept | nowhere)
    assert said.split() == [str(package / "__init__.py"), "False"]


def test_the_demo_says_what_its_comparisons_gave_and_where_the_picture_is(tmp_path):
    command = next(line for line in (ROOT / "Makefile").read_text().splitlines() if "examples.demo" in line)
    assert command.split("-m ")[1] == "examples.demo out/demo.png"
    out = run("-m", "examples.demo", str(tmp_path / "demo.png"))
    assert "objective 70.4" in out
    assert "objective 53.8" in out
    assert "CRFsuite" in out
    least, most = (
        float(line.split()[-1].rstrip("%")) for line in out.splitlines() if "untuned" in line or "SGD at" in line
    )
    assert least < 0.1 < most
    assert (tmp_path / "demo.png").stat().st_size > 10_000


def test_a_package_without_the_experiments_says_what_it_takes_to_reproduce_them(tmp_path):
    shutil.copytree(ROOT / "majorant", tmp_path / "majorant", ignore=shutil.ignore_patterns("__pycache__"))
    command = [sys.executable, "-m", "majorant", "reproduce", "bound"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("majorant: error: the experiments are not part of the installed package")
    assert "a source checkout of majorant" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_package_runs_as_the_command():
    assert "Usage: majorant" in run("-m", "majorant")


@pytest.mark.parametrize("name", ["bound", "solver"])
def test_figures_of_the_documentation_are_drawn(name, tmp_path):
    run("-m", f"examples.{name}_figure", str(tmp_path / "figure.png"))
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def run(*arguments, cwd=ROOT, env=None):
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout
