"""People of hidden classes, each with a conditional logit of its own: the model, starts, and estimates without end.

Person i makes choices t with probabilities of one class c, the same in all of them, and belongs to it with a
probability that depends on covariates z_i (the first of which is one):

    p_i = Σ_c π_c(z_i) Π_t P_c(y_it),   P_c(y) ∝ h(y) exp(β_cᵀf(y)),   π_c(z) ∝ exp(γ_cᵀz).

Parameters are (β, row by row; γ, row by row), the loss is −Σ_i w_i log p_i, which is not convex. With τ_ic the
posterior of class c given i's choices (the E-step):

*Gradient* (Fisher's identity): that of Σ_c τ_ic (−log joint_ic), with τ held.

*Bound* (the M-step). By Jensen's inequality −log p_i ≤ Σ_c τ_ic (−log joint_ic) + constant, with equality where τ was
found. What is left are conditional logits with weights w_i τ_ic, which Algorithm 1 bounds by quadratics, and a
multinomial logit with soft targets τ, which Böhning's matrix bounds. Minimising all of them never raises the loss.

*Hessian* (Louis): with u_ic = ∂(−log joint_ic)/∂θ, Σ_i w_i [ Σ_c τ_ic ∂u_ic/∂θ − Cov_τ(u_i) ].

A vector added to all γ_c changes no probability; estimates are reported with γ_1 = 0. So a ridge μ on γ is the penalty
½μ Σ_c (γ_c − γ̄)², with γ̄ the mean over classes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag, eigh, solve_triangular

from majorant.choice.enumerated import OutcomeFactors
from majorant.core.checks import Array
from majorant.core.choices import Sample
from majorant.core.curvature import Dense, Form, steady_factor
from majorant.core.kernels import partition
from majorant.core.model import Model, require_data
from majorant.core.rows import InMemory

# Shares of a class, log-likelihoods of its people and relative curvatures that are zero for all that can be told.
NEGLIGIBLE = 1e-6


@dataclass(frozen=True, eq=False)
class Panel(InMemory):
    """Observed choices of people, person by person, and what is known of each.

    ``starts`` says where the observations of each person begin, ``weight`` what a person counts, ``covariates`` are z_i
    with a first column of ones. Weights of the choices themselves are not used.
    """

    choices: Sample
    starts: Array
    weight: Array
    covariates: Array

    def __len__(self) -> int:
        return len(self.starts)

    def part(self, begin: int, end: int) -> Panel:
        return self if end - begin == len(self) else self.take(np.arange(begin, end))

    def take(self, rows: Array) -> Panel:
        counts = np.bincount(self.person, minlength=len(self))[rows]
        made = [np.arange(begin, begin + count) for begin, count in zip(self.starts[rows], counts, strict=True)]
        choices = Sample.of(self.choices.sets.take(self.choices.numbers[np.concatenate(made)]))
        if self.choices.chosen is not None:
            chosen = self.choices.chosen[np.concatenate(made)]
            choices = replace(self.choices, numbers=self.choices.numbers[np.concatenate(made)], chosen=chosen)
        return Panel(choices, np.cumsum(counts) - counts, self.weight[rows], self.covariates[rows])

    @cached_property
    def person(self) -> Array:
        """The person of each observation."""
        return np.repeat(np.arange(len(self)), np.diff(np.append(self.starts, len(self.choices))))

    @cached_property
    def features(self) -> Array:
        """The features of all outcomes of the distinct sets, less their mean in each set."""
        return self.choices.sets.centred()


@dataclass(frozen=True, eq=False)
class Expected:
    """The E-step: probabilities at some scores, and those of classes given what people chose."""

    outcomes: Array  # P_c(y) of all outcomes (outcomes × n)
    log_choices: Array  # log Π_t P_c(y_it) (people × n)
    priors: Array  # π_c(z_i)
    posteriors: Array  # τ_ic
    log_likelihoods: Array  # log p_i


@dataclass(frozen=True)
class LatentClasses(Model[Panel]):
    """Conditional logits of so many hidden classes of people; data are a :class:`Panel`.

    Scores are utilities of all outcomes under each class, then logits of membership of all people, flat.
    """

    n_classes: int

    def check(self, data: Panel) -> None:
        require_data(self, data, Panel)

    def block_rows(self, like: Panel, rows: int) -> int:
        return rows  # what people choose from is worked on once for all of them

    def convex(self, batch: Panel) -> bool:
        return False  # that of one class is, but nothing here needs to know

    def n_parameters(self, like: Panel) -> int:
        return self.n_classes * (like.features.shape[1] + like.covariates.shape[1])

    def split(self, theta: Array, like: Panel) -> tuple[Array, Array]:
        """Return β (n×d) and γ (n×q)."""
        tastes, membership = np.split(theta, [self.n_classes * like.features.shape[1]])
        return tastes.reshape(self.n_classes, -1), membership.reshape(self.n_classes, -1)

    # --- the loss and its gradient ------------------------------------------------------------------------

    def potentials(self, theta: Array, batch: Panel) -> Array:
        tastes, membership = self.split(theta, batch)
        return np.concatenate([(batch.features @ tastes.T).ravel(), (batch.covariates @ membership.T).ravel()])

    def add_measure(self, potentials: Array, batch: Panel) -> Array:
        log_h = batch.choices.sets.log_measure
        if log_h is None:
            return potentials
        return potentials + np.append(np.repeat(log_h, self.n_classes), np.zeros(len(batch) * self.n_classes))

    def expect(self, scores: Array, batch: Panel) -> Expected:
        """Return the probabilities of choices and of classes."""
        n, choices, sets = self.n_classes, batch.choices, batch.choices.sets
        utilities, logits = np.split(scores, [len(batch.features) * n])
        S, logits = utilities.reshape(-1, n), logits.reshape(-1, n)

        # Choices: log P_c(y_it), summed over the choices of each person.
        log_z, P = np.empty((len(sets), n)), np.empty_like(S)
        for which, at in sets.by_size:
            log_z[which], P[at] = partition.log_partition_and_probabilities(S[at])
        if choices.chosen is None:  # 0 · (−∞) is an outcome that neither can happen nor did
            target = sets.target[:, None]
            terms = np.multiply(target, S, out=np.zeros_like(S), where=target > 0)
            observed = np.add.reduceat(terms, sets.indptr[:-1])
        else:
            observed = S[choices.chosen]
        log_p = np.add.reduceat(observed - log_z[choices.numbers], batch.starts)
        log_p = np.maximum(log_p, -np.finfo(np.float64).max / 2)  # what a class all but rules out stays a number

        # Classes: their probabilities before and, by Bayes' rule, after the choices.
        log_priors = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
        log_likelihoods = np.logaddexp.reduce(log_p + log_priors, axis=1)
        posteriors = np.exp(log_p + log_priors - log_likelihoods[:, None])
        return Expected(P, log_p, np.exp(log_priors), posteriors, log_likelihoods)

    def loss_and_residual(self, scores: Array, batch: Panel) -> tuple[float, Array]:
        found, choices = self.expect(scores, batch), batch.choices
        members = batch.weight[:, None] * found.posteriors
        of_observations = members[batch.person]
        R = found.outcomes * np.repeat(_weights_of_sets(members, batch), choices.sets.sizes, axis=0)
        if choices.chosen is None:
            R -= choices.sets.target[:, None] * np.repeat(of_observations, choices.sets.sizes, axis=0)
        else:
            R -= _sums(choices.chosen, of_observations, len(R))
        surplus = batch.weight[:, None] * found.priors - members
        return -float(batch.weight @ found.log_likelihoods), np.concatenate([R.ravel(), surplus.ravel()])

    def lift(self, residual: Array, batch: Panel) -> Array:
        R, members = np.split(residual, [len(batch.features) * self.n_classes])
        tastes = R.reshape(-1, self.n_classes).T @ batch.features
        return np.concatenate([tastes.ravel(), (members.reshape(-1, self.n_classes).T @ batch.covariates).ravel()])

    # --- curvature ----------------------------------------------------------------------------------------

    def curvature(self, absorb: Form, majorizes: bool, scores: Array, batch: Panel) -> Dense:
        """Return the curvature of the bound, or the Hessian, which need not be positive: a matrix in any form."""
        n, Z, found = self.n_classes, batch.covariates, self.expect(scores, batch)
        if not majorizes:
            U, τ = self._joint_scores(found, batch), found.posteriors
            U -= np.einsum("ic,icd->id", τ, U)[:, None]
            U *= np.sqrt(batch.weight[:, None] * τ)[:, :, None]
            U = U.reshape(-1, U.shape[2])
            return Dense(block_diag(*self.complete(found, batch)) - U.T @ U, majorizes=False)
        sets, weights = batch.choices.sets, _weights_of_sets(batch.weight[:, None] * found.posteriors, batch)
        S = scores[: len(batch.features) * n].reshape(-1, n)
        factors = [
            OutcomeFactors(S[:, c], sets.reweighed(weights[:, c]), "descending", majorizes=True) for c in range(n)
        ]
        of_members = np.kron(0.5 * (np.eye(n) - 1.0 / n), Z.T @ (batch.weight[:, None] * Z))
        return Dense(block_diag(*[factor.matrix() for factor in factors], of_members), majorizes=True)

    def hessian_diagonal(self, scores: Array, batch: Panel) -> Array:
        """Return that of :meth:`complete`."""
        found = self.expect(scores, batch)
        tastes = [(self._class_rows(found, c, batch) ** 2).sum(axis=0) for c in range(self.n_classes)]
        spread = batch.weight[:, None] * found.priors * (1 - found.priors)
        return np.concatenate([*tastes, (spread.T @ batch.covariates**2).ravel()])

    def complete(self, found: Expected, batch: Panel) -> list[Array]:
        """Return the blocks of the Hessian if everybody's class were known to be c with probability τ_ic.

        One block belongs to the tastes of each class, the last to membership.
        """
        π, Z = found.priors, batch.covariates
        rows = [self._class_rows(found, c, batch) for c in range(self.n_classes)]
        B = np.einsum("ic,ce->ice", π, np.eye(self.n_classes)) - π[:, :, None] * π[:, None]
        H = np.einsum("i,ice,ip,iq->cpeq", batch.weight, B, Z, Z, optimize=True)
        return [*(Q.T @ Q for Q in rows), H.reshape(self.n_classes * Z.shape[1], -1)]

    def row_gradients(self, scores: Array, batch: Panel) -> Array:
        """Return the gradient of −w_i log p_i of each person."""
        found = self.expect(scores, batch)
        U = self._joint_scores(found, batch)
        return batch.weight[:, None] * np.einsum("ic,icd->id", found.posteriors, U)

    def _class_rows(self, found: Expected, c: int, batch: Panel) -> Array:
        """Return rows whose squares sum to the curvature of a class: √(w τ p) (f − mean)."""
        sizes, means = batch.choices.sets.sizes, _means(found, c, batch)
        weights = _weights_of_sets(batch.weight[:, None] * found.posteriors[:, [c]], batch)[:, 0]
        rows = batch.features - np.repeat(means, sizes, axis=0)
        rows *= np.sqrt(found.outcomes[:, c] * np.repeat(weights, sizes))[:, None]
        return rows

    def _joint_scores(self, found: Expected, batch: Panel) -> Array:
        """Return u_ic (people × n × parameters)."""
        n, d, Z = self.n_classes, batch.features.shape[1], batch.covariates
        U = np.zeros((len(batch), n, n * (d + Z.shape[1])))
        surplus = found.priors[:, None] - np.eye(n)  # π_i − e_c
        sets, chosen = batch.choices.sets, batch.choices.chosen
        if chosen is not None:
            observed = batch.features[chosen]
        else:
            observed = np.add.reduceat(sets.target[:, None] * batch.features, sets.indptr[:-1])
        for c in range(n):
            off = _means(found, c, batch)[batch.choices.numbers] - observed
            U[:, c, c * d : (c + 1) * d] = np.add.reduceat(off, batch.starts)
            U[:, c, n * d :] = np.einsum("ie,iq->ieq", surplus[:, c], Z).reshape(len(U), -1)
        return U


def _sums(places: Array, values: Array, size: int) -> Array:
    """Return the sums of rows of values that belong to each place."""
    return np.stack([np.bincount(places, column, minlength=size) for column in values.T], axis=1)


def _weights_of_sets(members: Array, batch: Panel) -> Array:
    """Return Σ w_i τ_ic over the observations of each set, given w_i τ_ic."""
    return _sums(batch.choices.numbers, members[batch.person], len(batch.choices.sets))


def _means(found: Expected, c: int, batch: Panel) -> Array:
    """Return the mean of features in every set under a class."""
    return np.add.reduceat(found.outcomes[:, [c]] * batch.features, batch.choices.sets.indptr[:-1])


# --- where runs start -------------------------------------------------------------------------------------


def starts(panel: Panel, pooled: Array, H: Array, classes: int, count: int, seed: int) -> list[Array]:
    """Return starts: people clustered by what they would change of the pooled tastes, from random centres.

    ``pooled`` are the tastes of one class, H is their Hessian. The gradient of person i there, through the root of H,
    says where i's own tastes are; k-means from random people breaks the symmetry between classes. Every second start
    draws logits of membership, and divides people by these; or, if nothing is known of people, draws the shares of
    clusters.
    """
    one, Z = LatentClasses(1), panel.covariates
    theta = np.concatenate([pooled, np.zeros(Z.shape[1])])
    G = one.row_gradients(one.scores(theta, panel), panel)[:, : len(pooled)]
    factor = steady_factor(H)
    changes = factor(np.ascontiguousarray(G.T)).T
    # Who made many choices, or counts for more, stands farther out only for that.
    counts = panel.weight * np.sqrt(np.bincount(panel.person, minlength=len(panel)))
    points = solve_triangular(np.tril(factor.L), (G / counts[:, None]).T, lower=True).T
    found = []
    for number in range(count):
        rng, logits = np.random.default_rng([seed, number]), None
        if number % 2:  # from other memberships than those of clusters the likelihood may lead to another maximum
            # Logits of standard deviation 3, to which covariates contribute alike.
            known = np.arange(Z.shape[1]) > 0
            size = 3.0 / np.sqrt(max(Z.shape[1] - 1, 1)) / np.where(known, Z.std(axis=0), 1.0)
            logits = rng.normal(size=(classes, Z.shape[1])) * np.where(known, size, 1.0)
            logits[:, 0] -= logits[:, 1:] @ Z[:, 1:].mean(axis=0)
        if logits is None or Z.shape[1] == 1:
            which = _clustered(points, classes, rng)
        else:
            which = (Z @ logits.T + rng.gumbel(size=(len(points), classes))).argmax(axis=1)
        if logits is None:
            logits = np.zeros((classes, Z.shape[1]))
            logits[:, 0] = np.log(np.bincount(which, minlength=classes) + 1.0)
        # One Newton step of each class from the pooled tastes, with the people in it counted for more.
        tastes = np.repeat(pooled[None], classes, axis=0)
        for c in range(classes):
            share = max(float(panel.weight[which == c].sum() / panel.weight.sum()), 0.1 / classes)
            step = changes[which == c].sum(axis=0) / share
            tastes[c] -= np.where(np.isfinite(step), step, 0.0)  # of separated choices there may be no such step
        found.append(np.concatenate([tastes.ravel(), (logits - logits.mean(axis=0)).ravel()]))
    return found


def _clustered(points: Array, classes: int, rng: np.random.Generator, steps: int = 5) -> Array:
    """Return a class for each person by a few steps of k-means, from people far from each other (k-means++)."""
    centres = points[[rng.integers(len(points))]]
    while len(centres) < classes:
        nearest = ((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
        chances = nearest / nearest.sum() if nearest.sum() > 0 else None
        centres = np.vstack([centres, points[rng.choice(len(points), p=chances)]])
    for step in range(steps + 1):
        which = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        if step < steps:
            means = [points[which == c].mean(axis=0) if (which == c).any() else centres[c] for c in range(classes)]
            centres = np.stack(means)
    return which


# --- estimates without end --------------------------------------------------------------------------------


def runaway_directions(model: LatentClasses, found: Expected, panel: Panel) -> list[Array]:
    """Return directions along which choices, or memberships, are all but certain: quasi-complete separation.

    They are columns, for the tastes of each class and then for membership in all classes but the first. Compared are
    curvatures, with classes held: at the estimates, and where tastes are zero and memberships the same for all people.
    That is no proof, as a program of linear inequalities would be; but who belongs to a class is not certain either.
    """
    zero = model.expect(model.scores(np.zeros(model.n_parameters(panel)), panel), panel)
    shares = np.broadcast_to(panel.weight @ found.priors / panel.weight.sum(), found.priors.shape)
    then = replace(zero, priors=shares, posteriors=found.posteriors)
    before, after = model.complete(then, panel), model.complete(found, panel)
    q = panel.covariates.shape[1]
    before[-1], after[-1] = before[-1][q:, q:], after[-1][q:, q:]  # a vector added to all logits changes nothing
    # A class of few people may have no curvature of its own in some direction: a little of that of all is added.
    everyone = np.sum([np.diag(block) for block in before[:-1]], axis=0)
    floors = [NEGLIGIBLE**2 * diagonal for diagonal in [everyone] * model.n_classes + [np.diag(before[-1])]]
    lost = []
    for now, at_zero, floor in zip(after, before, floors, strict=True):
        least = np.diag(np.maximum(floor, np.finfo(float).tiny))
        scale = np.sqrt(np.diag(at_zero + least))
        both = np.outer(scale, scale)
        values, vectors = eigh((now + least) / both, (at_zero + least) / both)
        # Where so little is left of the curvature at zero, estimates run off. The gain that stops a run is far smaller;
        # a single choice of n that speaks against it leaves about 1/n.
        lost.append(np.asarray(vectors[:, values < 1e-7]))
    return lost
