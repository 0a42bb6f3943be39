"""A smoke test of an installed wheel, to be run in a folder of its own; it needs nothing but the package."""

import subprocess
import sys
from pathlib import Path

import numpy as np

import majorant


def fits_and_keeps(folder: Path) -> None:
    """Fit, predict, save and load."""
    X, y = majorant.datasets.load("ecoli")
    model = majorant.LogisticRegression().fit(X, y)
    assert model.result_.converged, model.result_
    assert model.gap_ <= 1e-4, model.gap_
    assert model.score(X, y) > 0.8
    model.save(folder / "model.npz")
    again = majorant.LogisticRegression.load(folder / "model.npz")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    tagger = majorant.ChainCRF().fit([[{"a": 1.0}, {"b": 1.0}]] * 3, [["x", "y"]] * 3)
    assert list(tagger.predict([[{"a": 1.0}, {"b": 1.0}]])[0]) == ["x", "y"]


def speaks(*command: str) -> str:
    """Return what a command says; it has to succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def main() -> None:
    """Try what people try first, and say where the package was found."""
    home, here = Path(majorant.__file__), Path.cwd()
    assert "site-packages" in home.parts, f"{home} is not an installed package"
    assert home.with_name("py.typed").exists()
    fits_and_keeps(here)
    script = str(Path(sys.executable).with_name("majorant"))
    for command in ([script], [sys.executable, "-m", "majorant"]):
        assert speaks(*command, "--version") == f"majorant {majorant.__version__}\n"
        assert "Usage: majorant" in speaks(*command, "--help")
    done = subprocess.run([script, "reproduce"], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done
    assert "a source checkout of majorant" in done.stderr, done.stderr
    rows = (f"{k % 7},{k % 3},{'x' if k % 7 > 3 else 'y'}" for k in range(70))
    (here / "rows.csv").write_text("\n".join(["a,b,kind", *rows]))
    speaks(script, "fit", "rows.csv", "--target", "kind", "--model", "rows.npz")
    assert speaks(script, "predict", "rows.npz", "rows.csv").count("x") >= 20
    print(f"majorant {majorant.__version__} on Python {sys.version.split()[0]}: all well ({home.parent})")


if __name__ == "__main__":
    main()
