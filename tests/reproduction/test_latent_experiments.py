"""``majorant reproduce latent``: splits, the space of the rows, and what is said beside the published table."""

import json

import numpy as np
import pytest

from majorant import LatentMultinomial, Newton, Objective, datasets, minimize
from reproduction import latent, store
from tests.commands import invoke
from tests.problems import shared_data


@pytest.mark.parametrize(
    ("name", "shape", "counts"),
    [
        ("ionosphere", (351, 34), [126, 225]),
        ("bupa", (345, 7), [145, 200]),
        ("hepatitis", (155, 20), [32, 123]),
        ("wine", (178, 14), [59, 71, 48]),
        ("srbct", (83, 2309), [11, 29, 18, 25]),
    ],
)
def test_the_sets_are_as_published(name, shape, counts):
    shared_data("latent/srbct.csv.gz")
    X, y = datasets.load(name)
    assert X.shape == shape
    assert np.isfinite(X).all()
    assert np.bincount(y).tolist() == counts


def test_splits_hold_out_a_tenth_of_each_class():
    shared_data("latent/wine.data.gz")
    train, test = latent.parts("wine", 3)
    assert len(train) + len(test) == 178
    np.testing.assert_allclose(np.bincount(test.y), np.array([59, 71, 48]) / 10, atol=1.0)
    assert not np.allclose(test.design.dense(), latent.parts("wine", 4)[1].design.dense())
    np.testing.assert_allclose(train.design.dense()[:, :-1].mean(axis=0), 0.0, atol=1e-12)


def test_the_space_of_the_rows_is_enough():
    rng = np.random.default_rng(0)
    X, y, train = rng.normal(size=(20, 50)), rng.integers(0, 2, size=20), np.arange(20) < 15
    few = latent.in_row_space(X, train)
    assert few.shape == (20, 15)
    whole, small = (
        Objective(LatentMultinomial((1, 1)), latent.Labelled(rows[train], y[train]), ridge=1.0) for rows in (X, few)
    )
    a, b = (minimize(F, Newton(), start=np.zeros(F.size), tol=1e-14) for F in (whole, small))
    assert a.trace["objective"][-1] == pytest.approx(b.trace["objective"][-1], rel=1e-9)
    np.testing.assert_allclose(a.params.reshape(2, -1) @ X.T, b.params.reshape(2, -1) @ few.T, atol=1e-5)
    assert latent.in_row_space(X[:, :5], train).shape == (20, 5)


def test_the_command_writes_a_table_and_says_what_holds(tmp_path, monkeypatch):
    shared_data("latent/wine.data.gz")
    monkeypatch.setattr(latent, "RIDGES", {"wine": 1.0})
    done = invoke("reproduce", "latent", "--runs", "1", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert "With one state the objective is convex" in done.output.replace("\n", " ")
    report = (tmp_path / "latent.md").read_text()
    assert "## wine, λ = 1" in report
    assert report.count("| 4 |") == 1
    again = invoke("reproduce", "latent", "--runs", "1", "--out", tmp_path, "--json")
    told = json.loads(again.stdout)
    results = latent.Results(list(store.read(store.file_of(tmp_path, "latent")).values()))
    assert told["findings"] == latent.findings(results)
    assert max(results.everywhere("rise")) <= 1e-10
    one = [results.column("wine", 1, label, "test") for label in latent.SOLVERS]
    np.testing.assert_allclose(one, [one[0]] * len(one), atol=0.05)


def test_without_data_the_command_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("MAJORANT_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = invoke("reproduce", "latent", "--out", tmp_path)
    assert done.exit_code != 0
    assert "MAJORANT_DATA holds none of ionosphere" in done.stderr.replace("\n", " ")
