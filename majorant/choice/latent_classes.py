"""Conditional logits of people who belong to hidden classes, each with tastes of its own.

Person i makes choices t with probabilities of one class c, the same in all of them, and belongs to it with a
probability that depends on covariates z_i (the first of which is one):

    p_i = Σ_c π_c(z_i) Π_t P_c(y_it),   P_c(y) ∝ h(y) exp(β_cᵀf(y)),   π_c(z) ∝ exp(γ_cᵀz),  γ_0 = 0.

The loss is −Σ_i w_i log p_i + ½ Σ_c (Σ λβ_c² + Σ μ(γ_c − γ̄)²), γ̄ being the mean over classes. It is not
convex. With τ_ic the posterior of class c given i's choices:

*Gradient* (Fisher's identity): that of Σ_c τ_ic (−log joint_ic), with τ held.

*Bound.* By Jensen's inequality −log p_i ≤ Σ_c τ_ic (−log joint_ic) + constant, with equality where τ was found. What is
left are conditional logits with weights w_i τ_ic, which Algorithm 1 bounds by quadratics, and a multinomial logit with
soft targets τ, which Böhning's matrix bounds. Minimising all of them never raises the loss, without a line search.

*Hessian* (Louis): with u_ic = ∂(−log joint_ic)/∂θ, Σ_i w_i [ Σ_c τ_ic ∂u_ic/∂θ − Cov_τ(u_i) ].

Parameters are (β, row by row; γ of classes 1 …, row by row).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag

from majorant.choice.enumerated import OutcomeFactors
from majorant.core.checks import Array
from majorant.core.choices import Sample
from majorant.core.curvature import Dense
from majorant.core.kernels import partition

# What a log-probability is at least: people whose choices a class all but rules out.
LEAST_LOG = -1e300


@dataclass(frozen=True, eq=False)
class Panel:
    """Observed choices of people, person by person, and what is known of each.

    ``starts`` says where the observations of each person begin, ``weight`` what a person counts, ``covariates`` are z_i
    with a first column of ones. Weights of the sample itself are not used.
    """

    sample: Sample
    starts: Array
    weight: Array
    covariates: Array

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def person(self) -> Array:
        """Who made each observation."""
        return np.repeat(np.arange(len(self)), np.diff(np.append(self.starts, len(self.sample))))

    @cached_property
    def features(self) -> Array:
        """The features of all outcomes of the distinct sets, less their mean in each set."""
        return self.sample.sets.centred()

    @cached_property
    def observed_features(self) -> Array:
        """What each observation chose, or the mean of that."""
        if self.sample.chosen is not None:
            return self.features[self.sample.chosen]
        return np.add.reduceat(self.sample.sets.target[:, None] * self.features, self.sample.sets.indptr[:-1])


@dataclass(frozen=True, eq=False)
class Parameters:
    """Tastes (n×d) of the classes, and logits of membership (n×q), the first of which are zero."""

    tastes: Array
    membership: Array

    def flat(self) -> Array:
        """Return all but the logits that are zero, as one vector."""
        return np.concatenate([self.tastes.ravel(), self.membership[1:].ravel()])

    def moved(self, step: Array) -> Parameters:
        """Return the parameters after a step of the flat vector."""
        tastes, members = np.split(step, [self.tastes.size])
        changes = np.vstack([np.zeros((1, self.membership.shape[1])), members.reshape(-1, self.membership.shape[1])])
        return Parameters(self.tastes + tastes.reshape(self.tastes.shape), self.membership + changes)

    def ordered(self, order: Array) -> Parameters:
        """Return the classes in another order, or some of them."""
        logits = self.membership[order]
        return Parameters(self.tastes[order], logits - logits[0])


@dataclass(frozen=True, eq=False)
class LatentClasses:
    """The loss and what solvers ask of it, at some parameters, on some panel."""

    panel: Panel
    at: Parameters
    ridge: Array | float = 0.0  # λ, one for each column
    membership_ridge: Array | float = 0.0  # μ, one for each covariate

    def __len__(self) -> int:
        return len(self.at.tastes)

    def there(self, at: Parameters) -> LatentClasses:
        """Return the same at other parameters."""
        return replace(self, at=at)

    # --- what belongs to whom -----------------------------------------------------------------------------

    @cached_property
    def _softmax(self) -> tuple[Array, Array]:
        """Log partition functions (sets × n), and probabilities of all outcomes (outcomes × n)."""
        sets = self.panel.sample.sets
        S = self.panel.features @ self.at.tastes.T
        if sets.log_measure is not None:
            S = S + sets.log_measure[:, None]
        log_z, P = np.empty((len(sets), len(self))), np.empty_like(S)
        for which, at in sets.by_size:
            log_z[which], P[at] = partition.log_partition_and_probabilities(S[at])
        return log_z, P

    @property
    def probabilities(self) -> Array:
        """The probability of every outcome in its set under each class (outcomes × n)."""
        return self._softmax[1]

    @cached_property
    def log_choices(self) -> Array:
        """log Π_t P_c(y_it) for every person and class."""
        sample = self.panel.sample
        observed = self.panel.observed_features @ self.at.tastes.T
        log_p = observed - self._softmax[0][sample.numbers] + self._observed_measure[:, None]
        return np.maximum(np.add.reduceat(log_p, self.panel.starts), LEAST_LOG)

    @cached_property
    def log_priors(self) -> Array:
        """log π_c(z_i)."""
        logits = self.panel.covariates @ self.at.membership.T
        return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)

    @cached_property
    def log_likelihoods(self) -> Array:
        """log p_i."""
        return np.logaddexp.reduce(self.log_choices + self.log_priors, axis=1)

    @cached_property
    def posteriors(self) -> Array:
        """τ_ic."""
        return np.exp(self.log_choices + self.log_priors - self.log_likelihoods[:, None])

    @property
    def surprises(self) -> Array:
        """The mean of −log Π_t P_c(y_it) over the people of each class: zero where its tastes explain everything."""
        members = self.panel.weight[:, None] * self.posteriors
        return -(members * self.log_choices).sum(axis=0) / np.maximum(members.sum(axis=0), 1e-300)

    @property
    def shares(self) -> Array:
        """The mean of π_c(z_i) over people."""
        return self.panel.weight @ np.exp(self.log_priors) / self.panel.weight.sum()

    # --- the loss and its derivatives ---------------------------------------------------------------------

    @cached_property
    def loss(self) -> float:
        """−Σ_i w_i log p_i, and the penalties."""
        penalties = (self.ridge * self.at.tastes**2).sum() + (self.membership_ridge * self._centred_members**2).sum()
        return -float(self.panel.weight @ self.log_likelihoods) + 0.5 * float(penalties)

    @cached_property
    def gradient(self) -> Array:
        """Of the flat parameters."""
        tastes = self._residuals.T @ self.panel.features + self.ridge * self.at.tastes
        drawn = self.panel.weight[:, None] * (np.exp(self.log_priors) - self.posteriors)
        members = drawn[:, 1:].T @ self.panel.covariates + self.membership_ridge * self._centred_members[1:]
        return np.concatenate([tastes.ravel(), members.ravel()])

    @cached_property
    def complete(self) -> Array:
        """The Hessian of the flat parameters if everybody's class were known to be c with probability τ_ic."""
        blocks = [self.class_curvature(c, self) for c in range(len(self))]
        for block in blocks:
            block[np.diag_indices(len(block))] += self.ridge
        if len(self) == 1:
            return blocks[0]
        return block_diag(*blocks, self.membership_curvature() + self._membership_penalty())

    @property
    def curvatures(self) -> Array:
        """The diagonal of :attr:`complete`, without the rest of it."""
        tastes = [(self._class_rows(c, self) ** 2).sum(axis=0) + self.ridge for c in range(len(self))]
        π, Z = np.exp(self.log_priors[:, 1:]), self.panel.covariates
        members = (self.panel.weight[:, None] * π * (1 - π)).T @ Z**2 + self.membership_ridge * (1 - 1 / len(self))
        return np.concatenate([*tastes, members.ravel()])

    @cached_property
    def hessian(self) -> Array:
        """Of the flat parameters."""
        centred = self._centred_scores()
        return self.complete - centred.T @ centred

    def scores(self) -> Array:
        """Return the gradient of −w_i log p_i of each person (P × parameters)."""
        U = self._joint_scores()
        return self.panel.weight[:, None] * np.einsum("ic,icd->id", self.posteriors, U)

    def class_curvature(self, c: int, at: LatentClasses) -> Array:
        """Return Σ w Var_p(f) over the sets: the Hessian of the tastes of a class, posteriors held, p of a state."""
        rows = self._class_rows(c, at)
        return np.asarray(rows.T @ rows)

    def bound_minimizer(self) -> Parameters:
        """Return where the bound is least: the loss there is never larger."""
        tastes = np.stack([self._class_step(c) for c in range(len(self))])
        gradient = self.gradient[tastes.size :]
        curvature = Dense(self._membership_bound(), majorizes=True) if len(self) > 1 else None
        members = gradient if curvature is None else -curvature.solve(gradient)
        return self.at.moved(np.concatenate([tastes.ravel(), members]))

    # --- what these are made of ---------------------------------------------------------------------------

    @cached_property
    def _observed_measure(self) -> Array:
        sample = self.panel.sample
        log_h = sample.sets.log_measure
        if log_h is None:
            return np.zeros(len(sample))
        if sample.chosen is not None:
            return log_h[sample.chosen]
        terms = np.where(sample.sets.target > 0, sample.sets.target * np.where(np.isfinite(log_h), log_h, 0.0), 0.0)
        return np.add.reduceat(terms, sample.sets.indptr[:-1])

    @cached_property
    def _centred_members(self) -> Array:
        """γ_c − γ̄, which the penalty is of."""
        return self.at.membership - self.at.membership.mean(axis=0)

    @cached_property
    def _observation_weights(self) -> Array:
        return (self.panel.weight[:, None] * self.posteriors)[self.panel.person]

    @cached_property
    def _set_weights(self) -> Array:
        """Σ w_i τ_ic over the observations of each set (sets × n)."""
        sample = self.panel.sample
        return _sums(sample.numbers, self._observation_weights, len(sample.sets))

    @cached_property
    def _residuals(self) -> Array:
        """∂loss/∂score of every outcome and class."""
        sample = self.panel.sample
        sets = sample.sets
        R = self._softmax[1] * np.repeat(self._set_weights, sets.sizes, axis=0)
        if sample.chosen is None:
            return R - sets.target[:, None] * np.repeat(self._observation_weights, sets.sizes, axis=0)
        return R - _sums(sample.chosen, self._observation_weights, len(R))

    @cached_property
    def _means(self) -> list[Array]:
        """The mean of features in every set under each class."""
        starts, X = self.panel.sample.sets.indptr[:-1], self.panel.features
        return [np.add.reduceat(p[:, None] * X, starts) for p in self._softmax[1].T]

    def _class_step(self, c: int) -> Array:
        """Return the step of the tastes of a class to where their bound is least."""
        sets, weight, d = self.panel.sample.sets, self._set_weights[:, c], self.at.tastes.shape[1]
        if not weight.sum() > 0:
            return np.zeros(d)
        S = self.panel.features @ self.at.tastes[c]
        S = S if sets.log_measure is None else S + sets.log_measure
        curvature = Dense(
            OutcomeFactors(S, sets.reweighed(weight), "descending", majorizes=True).matrix(), majorizes=True
        )
        return -curvature.solve(self.gradient[c * d : (c + 1) * d], self.ridge)

    def _class_rows(self, c: int, at: LatentClasses) -> Array:
        """Return rows whose squares sum to the curvature of a class."""
        sizes = self.panel.sample.sets.sizes
        rows = self.panel.features - np.repeat(at._means[c], sizes, axis=0)
        rows *= np.sqrt(at._softmax[1][:, c] * np.repeat(self._set_weights[:, c], sizes))[:, None]
        return rows

    def _membership_bound(self) -> Array:
        """Böhning's ½(I − 11ᵀ/n) ⊗ Σ w z zᵀ, without class 0, and the penalty."""
        n, Z = len(self), self.panel.covariates
        bound = np.kron(0.5 * (np.eye(n - 1) - 1.0 / n), Z.T @ (self.panel.weight[:, None] * Z))
        return bound + self._membership_penalty()

    def _membership_penalty(self) -> Array | float:
        if not np.any(self.membership_ridge):
            return 0.0
        n, q = self.at.membership.shape
        return np.kron(np.eye(n - 1) - 1.0 / n, np.diag(np.broadcast_to(self.membership_ridge, q)))

    def membership_curvature(self) -> Array:
        """Return the Hessian of the logits of membership if everybody's class were known, the penalty left out."""
        π, Z = np.exp(self.log_priors[:, 1:]), self.panel.covariates
        B = np.einsum("ic,ce->ice", π, np.eye(π.shape[1])) - π[:, :, None] * π[:, None]
        H = np.einsum("i,ice,ip,iq->cpeq", self.panel.weight, B, Z, Z, optimize=True)
        return H.reshape(π.shape[1] * Z.shape[1], -1)

    def _joint_scores(self) -> Array:
        """u_ic (P × n × parameters)."""
        (n, d), Z, sample = self.at.tastes.shape, self.panel.covariates, self.panel.sample
        U = np.zeros((len(self.panel), n, n * d + (n - 1) * Z.shape[1]))
        drawn = np.exp(self.log_priors)[:, None] - np.eye(n)  # π_i − e_c
        for c in range(n):
            surplus = self._means[c][sample.numbers] - self.panel.observed_features
            U[:, c, c * d : (c + 1) * d] = np.add.reduceat(surplus, self.panel.starts)
            U[:, c, n * d :] = np.einsum("ie,iq->ieq", drawn[:, c, 1:], Z).reshape(len(U), -1)
        return U

    def _centred_scores(self) -> Array:
        U, τ = self._joint_scores(), self.posteriors
        U -= np.einsum("ic,icd->id", τ, U)[:, None]
        U *= np.sqrt(self.panel.weight[:, None] * τ)[:, :, None]
        return U.reshape(-1, U.shape[2])


def _sums(places: Array, values: Array, size: int) -> Array:
    """Return the sums of rows of values that belong to each place."""
    return np.stack([np.bincount(places, column, minlength=size) for column in values.T], axis=1)
