"""Dense chains where rows are tensors: the same numbers as arrays give."""

import numpy as np
import pytest

from majorant import ChainCRF, Objective, on_device
from majorant.chain.dense import DenseChain, dense_sequences
from tests.chain.test_dense import STEPS, as_sequences, made_up

torch = pytest.importorskip("torch")

from majorant.chain.tensors import PIECE, Packing, TensorRows, forward_backward  # noqa: E402
from majorant.device.blocks import OnDevice  # noqa: E402


def both(X, y, starts, **more):
    """Objectives of the same sequences, as an array and as a tensor."""
    rows = TensorRows.of_rows(torch.tensor(X))
    there = OnDevice(torch.device("cpu"), 3)
    return (
        Objective(DenseChain(), dense_sequences(X, y, starts, 3, **more), ridge=0.3),
        Objective(DenseChain(), dense_sequences(rows, y, starts, 3, **more), ridge=0.3, reducer=there),
    )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("piece", [PIECE, 30])
def test_every_number_is_that_of_arrays(monkeypatch, weighted, piece):
    monkeypatch.setattr("majorant.chain.tensors.PIECE", piece)
    X, y, starts = made_up(30)
    weight = np.repeat(np.random.default_rng(1).uniform(0.5, 2.0, 30), np.diff(starts)) if weighted else None
    here, there = both(X, y, starts, weight=weight, steps=STEPS)
    theta = np.random.default_rng(2).normal(size=here.size)
    a, b = here.point(theta), there.point(theta)
    assert a.value == pytest.approx(b.value, rel=1e-14)
    np.testing.assert_allclose(a.gradient, b.gradient, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(here.hessian_diagonal(a), there.hessian_diagonal(b), rtol=1e-11, atol=1e-11)
    for one, other in zip(
        here.blocks.total(here.model.label_curvature, a.scores),
        there.blocks.total(there.model.label_curvature, b.scores),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)
    δ = np.random.default_rng(3).normal(size=here.size)
    for length in (0.3, 1.0):
        rays = [F.ray(p, δ, unit_step=True) for F, p in ((here, a), (there, b))]
        assert rays[0].value_and_slope(length) == pytest.approx(rays[1].value_and_slope(length), rel=1e-12)
        np.testing.assert_allclose(
            rays[0].point_at(length).gradient, rays[1].point_at(length).gradient, rtol=1e-10, atol=1e-10
        )
    assert here.certify(theta).gap == pytest.approx(there.certify(theta).gap, rel=1e-9)


def test_scores_that_are_far_apart_overflow_nowhere():
    U, A = (
        torch.tensor([[800.0, -800.0], [-800.0, 800.0], [0.0, 1.0]]).double(),
        torch.tensor([[300.0, -300.0], [0.0, 5.0]]).double(),
    )
    data = dense_sequences(TensorRows.of_rows(torch.ones(3, 1).double()), np.zeros(3, np.int32), np.array([0, 2, 3]), 2)
    packed = Packing.of(data)
    P, pairs, log_z = forward_backward(U[packed.order], A, packed)
    assert float(log_z.sum()) == pytest.approx(1600 - 300 + np.logaddexp(0.0, 1.0), rel=1e-12)
    assert torch.isfinite(P).all()
    assert float(pairs.sum()) == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["float64", "float32", "bfloat16"])
def test_a_fit_to_tensors_is_that_to_arrays_of_the_same_numbers(kind):
    X, y, starts = made_up(60)
    tensor = torch.tensor(X).to(getattr(torch, kind))
    rounded, lengths = tensor.double().numpy(), np.diff(starts)
    there = ChainCRF(c2=0.05, tol=1e-8).fit(on_device(tensor, "cpu"), torch.tensor(y), lengths=lengths)
    here = ChainCRF(c2=0.05, tol=1e-8).fit(rounded, y, lengths=lengths)
    assert there.result_.converged
    assert there.trace_["objective"][-1] == pytest.approx(here.trace_["objective"][-1], rel=2e-8)
    assert there.predict(on_device(tensor, "cpu"), lengths=lengths) == here.predict(rounded, lengths=lengths)
    assert there.state_features_ == pytest.approx(here.state_features_, abs=1e-2)


def test_tensors_in_host_memory_are_read_as_arrays():
    X, y, starts = made_up(20)
    rows, labels = as_sequences(X, y, starts)
    tensors = [torch.tensor(x, requires_grad=True) for x in rows]
    assert ChainCRF().fit(tensors, labels).state_features_ == ChainCRF().fit(rows, labels).state_features_


def test_tensors_are_attributes_where_transitions_are_constrained():
    X, y, starts = made_up(20)
    rows, labels = as_sequences(X, np.minimum(y, 1), starts)
    allowed = [("0", "0"), ("0", "1"), ("1", "0"), ("1", "1")]
    fits = [ChainCRF(transitions=allowed).fit(given, labels) for given in (rows, [torch.tensor(x) for x in rows])]
    assert fits[0].state_features_ == fits[1].state_features_


def test_attributes_beside_tensors():
    X, y, starts = made_up(30)
    rows, labels = as_sequences(X, y, starts)
    words = [[[f"w{int(abs(r[0])) % 4}"] for r in x] for x in rows]
    arrays = ChainCRF(c2=0.1, tol=1e-8).fit(list(zip(rows, words, strict=True)), labels)
    data = arrays._prepared(list(zip(rows, words, strict=True)), labels, None, None, None).data
    design = TensorRows.of_rows(torch.tensor(X))
    F = [
        Objective(DenseChain(), data, ridge=0.2),
        Objective(DenseChain(), type(data).beside(data, design), ridge=0.2, reducer=OnDevice(torch.device("cpu"), 3)),
    ]
    theta = np.random.default_rng(0).normal(size=F[0].size)
    (a, of_a), (b, of_b) = (f.value_and_gradient(theta) for f in F)
    assert a == pytest.approx(b, rel=1e-13)
    np.testing.assert_allclose(of_a, of_b, rtol=1e-11, atol=1e-11)


def test_numbers_that_are_none_are_refused():
    X, y, starts = made_up(6)
    X[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN or infinity in row 3"):
        ChainCRF().fit(on_device(X, "cpu"), y, lengths=np.diff(starts))
