"""Whoever lacks a package is told which extra brings it, in the same words everywhere."""

import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import majorant
from majorant.core.checks import EXTRAS, needed
from majorant.linear.probe import Row, SweepTable

ROOT = Path(__file__).parent.parent
CALL = re.compile(r"needed\((?:\"[\w.]+\"|module), .+?, \"(\w+)\"\)")


def save_head(folder):
    X, y = np.eye(4).repeat(5, axis=0), np.arange(20) % 2
    majorant.LinearProbe(Cs=[1.0]).fit(X, y).save(folder / "head.safetensors")


def make_frame(folder):
    SweepTable([Row(1.0, 0.5, 0.7, 0.0, 0.0, 1.0, 0.1)], 0).to_frame()


USES = {
    "frames": ("pandas", make_frame),
    "files": ("pyarrow", lambda folder: majorant.Parquet(folder / "t.parquet", target="y").pieces()),
    "plot": ("matplotlib", lambda folder: majorant.plot({"objective": np.ones(2), "passes": np.arange(2)})),
    "safetensors": ("safetensors", save_head),
    "torch": ("torch", lambda folder: majorant.on_device(np.eye(2))),
}


@pytest.mark.parametrize("extra", USES)
def test_what_is_missing_is_said_with_its_extra(extra, tmp_path, monkeypatch):
    module, use = USES[extra]
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    for name in [module, *(each for each in sys.modules if each.startswith(f"{module}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf" needs {EXTRAS[extra]}: pip install 'majorant\[{extra}\]'$"):
        use(tmp_path)


def test_every_extra_that_is_named_exists_and_brings_what_it_says():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for extra, packages in EXTRAS.items():
        brought = " ".join(declared[extra]).lower()
        for package in re.split(", | and ", packages.replace("PyTorch", "torch").lower()):
            assert package in brought, extra


def test_nobody_words_it_anew():
    sources = {path: path.read_text() for path in (ROOT / "majorant").rglob("*.py") if path.name != "checks.py"}
    called = [extra for text in sources.values() for extra in CALL.findall(text)]
    assert set(called) == set(EXTRAS)
    assert sum(text.count("needed(") for text in sources.values()) == len(called)
    assert [path for path, text in sources.items() if "pip install" in text] == []


def test_a_package_that_lacks_one_of_its_own_says_so_itself(tmp_path, monkeypatch):
    (tmp_path / "half_there.py").write_text("import what_half_there_needs")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="what_half_there_needs"):
        needed("half_there", "a plot", "plot")
