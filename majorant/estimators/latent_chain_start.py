"""Where chains with hidden states start: at zero all states of a label are alike, and would stay so."""

from __future__ import annotations

import numpy as np

from majorant._checks import Array
from majorant.data.sequences import Sequences
from majorant.data.universe import Universe
from majorant.models import Chain, LatentChain
from majorant.objective import Objective
from majorant.run import minimize
from majorant.solvers import QuasiNewton

# How well the chain without hidden states is solved that states start from.
TOLERANCE = 1e-2
# How much states of a label differ at first: of a copy, and where there is nothing to copy.
NOISE, NOISE_ALONE = 0.01, 0.1


def starts(objective: Objective, seed: int, many: int) -> list[Array]:
    """Return so many parameters to start from.

    Sequences that are in memory are first fitted without hidden states, which takes far less time; every state starts
    as a copy of its label, with noise. From a source, and with workers, there is the noise alone.
    """
    assert isinstance(objective.like, Sequences)
    data, scale = objective.whole, noise_scale(objective.like)
    noise = [scale * np.random.default_rng([seed, k]).normal(size=objective.size) for k in range(many)]
    if not isinstance(data, Sequences):
        return [NOISE_ALONE * each for each in noise]
    copy = copied_from_labels(objective, data, seed)
    return [copy + NOISE * each for each in noise]


def noise_scale(like: Sequences) -> Array:
    """Return by how much less the parameters of attributes with large values have to differ for as much of scores."""
    scale, universe = np.ones(like.universe.size), like.universe
    if like.values is not None:
        largest = np.ones(universe.n_attributes)
        np.maximum.at(largest, like.attributes, np.abs(like.values))
        scale[: len(universe.label)] = 1 / largest[universe.attribute]
    return scale


def copied_from_labels(objective: Objective, data: Sequences, seed: int) -> Array:
    """Return parameters in which all states of a label are alike: those of a chain of labels."""
    model = objective.model
    assert isinstance(model, LatentChain)
    of_chain = of_labels(data, model.owner)
    visible = Objective(Chain(), of_chain, ridge=objective.penalty.as_prior()[0], reducer=objective.reducer)
    solution = minimize(visible, QuasiNewton(seed=seed), tol=TOLERANCE, threads=None)
    return copied(solution.params, of_chain.universe, data.universe, model.owner)


def of_labels(data: Sequences, owner: Array) -> Sequences:
    """Return the same sequences with labels in the place of the states that they own."""
    states = data.universe
    n, owner = int(owner[-1]) + 1, owner.astype(np.int64)
    pairs, steps = np.unique(_of_owner(states.pairs, states.n, owner)), _steps_of_owners(states, owner)
    universe = Universe.of(pairs, np.unique(steps), n, states.n_attributes)
    before = np.empty(states.n_attributes, dtype=np.int64)
    before[states.number] = universe.number
    attributes = before[data.attributes].astype(data.attributes.dtype)
    return Sequences.of(universe, data.starts, data.indptr, attributes, data.values, data.y, data.weight)


def copied(theta: Array, labels: Universe, states: Universe, owner: Array) -> Array:
    """Return the parameters of labels for each of their states."""
    owner = owner.astype(np.int64)
    order = np.argsort(labels.pairs)
    places = order[np.searchsorted(labels.pairs, _of_owner(states.pairs, states.n, owner), sorter=order)]
    steps = np.searchsorted(labels.steps, _steps_of_owners(states, owner))
    return np.concatenate([theta[places], theta[len(labels.label) + steps]])


def _of_owner(pairs: Array, n: int, owner: Array) -> Array:
    """Return pairs something·n + state as pairs something·labels + label."""
    return pairs // n * (owner[-1] + 1) + owner[pairs % n]


def _steps_of_owners(states: Universe, owner: Array) -> Array:
    before, after = states.transitions.T
    return owner[before] * (owner[-1] + 1) + owner[after]
