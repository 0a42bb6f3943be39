"""LinearProbe on tensors of PyTorch: the probe that arrays lead to, and a layer that says what it says."""

import json

import numpy as np
import pytest

pytest.importorskip("torch", reason="tensors need PyTorch, which is no part of the usual tests")

import torch

from majorant import LinearProbe
from majorant.linear.held_out import losses_and_best, moments, take
from tests.linear.test_probe import GRID, embeddings
from tests.linear.test_probe_many import counted_at_zero, several_label_sets

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def on_device(X, dtype=torch.float64):
    return torch.as_tensor(X, dtype=dtype, device=DEVICE)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("standardize", [False, True])
def test_tensors_lead_to_the_probe_of_arrays(classes, standardize):
    X, y = embeddings(classes)
    codes = np.unique(y, return_inverse=True)[1]
    settings = dict(Cs=GRID, standardize=standardize, tol=1e-9)
    of_arrays = LinearProbe(**settings).fit(X, codes)
    of_tensors = LinearProbe(**settings).fit(on_device(X), torch.as_tensor(codes, device=DEVICE))
    assert of_tensors.C_ == of_arrays.C_
    assert np.allclose(of_tensors.scores_["loss"], of_arrays.scores_["loss"], rtol=1e-2)
    assert isinstance(of_tensors.coef_, np.ndarray)
    assert np.allclose(of_tensors.coef_, of_arrays.coef_, atol=1e-4)


def test_rows_of_their_own_may_be_tensors():
    X, y = embeddings()
    codes = np.unique(y, return_inverse=True)[1]
    given = LinearProbe(GRID).fit(on_device(X[:300]), codes[:300], on_device(X[300:]), torch.as_tensor(codes[300:]))
    arrays = LinearProbe(GRID).fit(X[:300], codes[:300], X[300:], codes[300:])
    assert given.C_ == arrays.C_
    few = np.arange(0, 400, 3)
    some = LinearProbe(GRID).fit_many(on_device(X), {"some": (few, codes[few])})["some"]
    assert some.C_ == LinearProbe(GRID).fit(X[few], codes[few]).C_


def test_label_sets_share_products_of_columns(monkeypatch):
    X, sets = several_label_sets()
    made = counted_at_zero(monkeypatch)
    settings = dict(Cs=GRID[:3])
    probes = LinearProbe(**settings).fit_many(on_device(X, torch.float32), sets)
    assert len([rows for rows in made if rows > 100]) == 1
    for name in ("b", "fewer"):
        alone = LinearProbe(**settings).fit(on_device(X, torch.float32), sets[name])
        assert probes[name].C_ == alone.C_
        assert np.allclose(probes[name].coef_, alone.coef_, atol=1e-3)


@pytest.mark.parametrize("classes", [2, 4])
def test_a_head_has_the_scores_of_the_probe(classes, tmp_path):
    X, y = embeddings(classes)
    before = torch.get_rng_state()
    probe = LinearProbe(GRID).fit(X, y)
    head = probe.head()
    assert torch.equal(before, torch.get_rng_state())
    P = torch.softmax(head(torch.as_tensor(X)), 1).detach().numpy()
    assert np.allclose(P, probe.predict_proba(X))
    from safetensors.torch import load_file

    probe.save(tmp_path / "head.safetensors")
    layer = torch.nn.Linear(X.shape[1], classes, dtype=torch.float64)
    layer.load_state_dict(load_file(tmp_path / "head.safetensors"))
    assert torch.equal(layer.weight, head.weight)


def test_moments_losses_and_rows_are_those_of_arrays():
    X, y = embeddings()
    codes = np.unique(y, return_inverse=True)[1]
    found = moments(on_device(X, torch.float32))
    assert np.allclose(found.mean, X.mean(axis=0), atol=1e-5)
    assert np.allclose(found.variance, X.var(axis=0), rtol=1e-5)
    rows = np.array([5, 3, 300])
    assert np.allclose(take(on_device(X), rows).cpu(), X[rows])
    for scores in (X[:, :4], X[:, 0]):
        labels = codes if scores.ndim == 2 else codes % 2
        for ours, theirs in zip(
            losses_and_best(on_device(scores), labels), losses_and_best(scores, labels), strict=True
        ):
            assert np.allclose(ours, theirs)


@pytest.mark.parametrize("constant", [0.1, 7.3, -2.7e-3])
def test_a_constant_column_has_no_variance(constant):
    found = moments(torch.full((3_000, 1), constant, dtype=torch.float64))
    assert (found.mean, found.variance) == (constant, 0.0)


def test_wrong_tensors_are_named():
    with pytest.raises(ValueError, match="shape"):
        LinearProbe().fit(torch.ones(4), [0, 1, 0, 1])
    with pytest.raises(ValueError, match="one label for each"):
        LinearProbe().fit(torch.ones(4, 2), [0, 1, 0])


def test_the_command_reads_tensors(tmp_path):
    from tests.commands import call

    X, y = embeddings()
    codes = torch.as_tensor(np.unique(y, return_inverse=True)[1])
    torch.save({"features": torch.as_tensor(X), "labels": codes}, tmp_path / "both.pt")
    (tmp_path / "bad.pt").write_bytes(b"nothing")
    found = json.loads(call("probe", tmp_path / "both.pt", "--cs", "0.1,1", "--json", "--device", DEVICE))
    assert found["C"] == LinearProbe([0.1, 1.0]).fit(X, codes.numpy()).C_
    assert "is not a file of tensors" in call("probe", tmp_path / "bad.pt", tmp_path / "both.pt", code=1)
    assert "--device nowhere cannot be used" in call("probe", tmp_path / "both.pt", "--device", "nowhere", code=1)
