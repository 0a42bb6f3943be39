"""What the runs of :mod:`majorant.experiments.latent` say, beside what was published."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from majorant._checks import Array
from majorant.experiments import store
from majorant.experiments.document import Block, Heading, Paragraph, Table, to_markdown
from majorant.experiments.latent import RIDGES, SOLVERS, STATES

# Test log-likelihoods of the paper's table: the bound, and the best of BFGS, SD, CG and Newton where the text at hand
# gives it, for one to four states.
PUBLISHED: dict[str, tuple[Sequence[float], Sequence[float]]] = {
    "ionosphere": ((-6.08, -4.84, -4.18, -5.17), (-4.96, -5.55, -5.56, -5.22)),
    "bupa": ((-21.85, -19.95, -20.01, -19.97), (-21.76,)),
    "hepatitis": ((-5.47, -4.40, -4.75, -4.92), (-4.42, -4.84, -4.84, -4.50)),
    "wine": ((-0.51, -0.51, -0.48, -0.51), (-0.51,)),
    "srbct": ((-5.31, -5.31, -4.90, -0.11), (-5.54, -5.49, -5.36, -5.54)),
}
# Objectives that differ by less, relatively, are the same.
SAME = 1e-4
HOW = (
    "Jebara and Choromanska (*Majorization for CRFs and latent likelihoods*, NIPS 2012) compare solvers of p(y∣x) "
    "= Σ_m p(y, m∣x) by their test log-likelihood at convergence. Their splits and λ are not in the text at hand. "
    "Here each class gives a tenth of its rows to the test set; what is reported is the **sum** over the test "
    "rows, mean ± standard deviation over splits. Columns are standardised "
    "on the training rows, and every parameter is penalised, by a λ that was chosen once by five-fold cross-validation "
    "of the model with one state and pinned. Every solver starts from the same random parameters and "
    "stops when its gradient, in the metric of the curvature, promises less than 1e-8 of the objective. *bound* "
    "is `BatchMajorization()`; *Newton* has the Hessian of log Z, which is positive where that of the loss is "
    "not. SRBCT is fitted in the space that its training rows span, which is the same problem with few columns."
)


class Results:
    """Runs of all sets, by set, states and solver."""

    def __init__(self, entries: Sequence[Mapping[str, Any]]) -> None:
        self._entries = entries

    @property
    def names(self) -> list[str]:
        """Names of the sets, in the order of the table."""
        there = {entry["settings"]["set"] for entry in self._entries}
        return [name for name in RIDGES if name in there]

    def column(self, name: str, states: int, label: str, what: str) -> Array:
        """Return a number of each split."""
        chosen = (e for e in self._entries if e["settings"]["set"] == name and e["settings"]["states"] == states)
        return np.array([entry["runs"][label][what] for entry in chosen])

    def everywhere(self, what: str) -> list[Any]:
        """Return a number, or a word, of every run."""
        return [run[what] for entry in self._entries for run in entry["runs"].values()]

    def splits(self) -> int:
        """Return how many splits there are."""
        return len({entry["settings"]["split"] for entry in self._entries})


def table(results: Results, name: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return header and rows of a set: a row for each number of states."""
    header = ("states", *SOLVERS, "published: bound", "published: best other")
    bound, other = PUBLISHED[name]
    rows = []
    for k, states in enumerate(STATES):
        found = [_mean(results.column(name, states, label, "test")) for label in SOLVERS]
        said = [f"{values[k]:.2f}" if k < len(values) else "" for values in (bound, other)]
        rows.append((str(states), *found, *said))
    return header, rows


def _mean(values: Array) -> str:
    spread = f" ± {values.std():.2f}" if len(values) > 1 else ""
    return f"{values.mean():.2f}{spread}"


def findings(results: Results) -> list[str]:
    """Return what the runs say, a sentence or a few each."""
    return [sentence for sentences in sections(results).values() for sentence in sentences]


def sections(results: Results) -> dict[str, list[str]]:
    """Return by heading what the runs say of the published table."""
    rises, outcomes = results.everywhere("rise"), results.everywhere("outcome")
    limited = sum(outcome != "stationary" for outcome in outcomes)
    holds = [
        f"The largest relative rise of any objective in any step of {len(rises)} runs is {max(rises):.1e}.",
        "With more states different solvers end in different places from the same start: by up to "
        f"{max(_disagreement(results, m) for m in STATES[1:]):.2g} on one split.",
        f"{limited} of {len(outcomes)} runs ended at the limit of their steps or of precision, all others stationary.",
    ]
    does_not = [_against_others(results), _against_itself(results)]
    by_set = [_compared(results, name) for name in results.names]
    care = [
        "Splits and λ are ours, and sums over a tenth of the rows need not be what was published: only differences "
        "between solvers and between numbers of states can be compared. Where the published lead comes "
        "from, nothing here says.",
        "Which number of states does best is read off the same test rows, and splits share rows: gains are "
        "flattered, and their standard errors too small. λ was chosen for one state and is the same for all.",
    ]
    return {"What holds": holds, "What does not": does_not, "Set by set": by_set, "What to read with care": care}


def _against_others(results: Results) -> str:
    """Say that the bound finds no better optima than others, or by how much it does."""
    cases = [(name, m) for name in results.names for m in STATES[1:]]
    means = {label: np.array([results.column(*case, label, "test").mean() for case in cases]) for label in SOLVERS}
    lead = means["bound"] - np.max([means[label] for label in SOLVERS if label != "bound"], axis=0)
    ends = [np.stack([results.column(*case, label, "objective") for label in SOLVERS]) for case in cases]
    least = np.concatenate([each <= (1 + SAME) * each.min(axis=0) for each in ends], axis=1).sum(axis=1)
    each = ", ".join(f"{label} {count}" for label, count in zip(SOLVERS, least.tolist(), strict=True))
    return (
        "The published lead of the bound over all others is not seen: with hidden states the mean of its test "
        f"log-likelihoods is between {-lead.min():.2f} below and {max(lead.max(), 0.0):.2f} above that of the best "
        f"other solver. Nor does it find lower training objectives: of {sum(e.shape[1] for e in ends)} problems with "
        f"hidden states so many ended at the lowest of the five, or within {SAME:g} of it (relative): {each}."
    )


def _against_itself(results: Results) -> str:
    """Say what the published numbers of one state cannot be."""
    apart = {name: other[0] - bound[0] for name, (bound, other) in PUBLISHED.items()}
    differ = ", ".join(f"{name} {gap:+.2f}" for name, gap in apart.items() if abs(gap) > 0.05)
    return (
        "With one state the objective is convex, and solvers that converge agree: here the largest difference of their "
        f"test log-likelihoods on any split is {_disagreement(results, 1):.2g}. The published numbers of one state "
        f"differ between solvers (the best of the others less the bound: {differ}), which solvers that have converged "
        "on one problem cannot do: some of them had not, or their problems differed."
    )


def _disagreement(results: Results, states: int) -> float:
    return max(
        float(np.ptp([results.column(name, states, label, "test") for label in SOLVERS], axis=0).max())
        for name in results.names
    )


def _compared(results: Results, name: str) -> str:
    ours = {m: results.column(name, m, "bound", "test") for m in STATES}
    best = max(STATES, key=lambda m: float(ours[m].mean()))
    published = STATES[int(np.argmax(PUBLISHED[name][0]))]
    gain = ours[best] - ours[1]
    sure = gain.mean() > 2 * gain.std() / max(np.sqrt(len(gain) - 1), 1)
    scale = f"With one state it has {ours[1].mean():.2f} (published: {PUBLISHED[name][0][0]:.2f})."
    if best == 1:
        return f"{name}: the bound does best with one state, hidden ones gain nothing (published: {published}). {scale}"
    weight = "more than" if sure else "within"
    gained = f"{gain.mean():.2f} over one state, {weight} twice its standard error"
    return f"{name}: the bound does best with {best} states (published: {published}), by {gained}. {scale}"


def write_report(results: Results, out: Path) -> Path:
    """Write the report beside the results, and return its path."""
    blocks: list[Block] = [Heading("Latent likelihoods", 1), Paragraph(HOW)]
    for heading, sentences in sections(results).items():
        blocks += [Heading(heading), *(Paragraph(f"- {sentence}") for sentence in sentences)]
    for name in results.names:
        blocks += [Heading(f"{name}, λ = {RIDGES[name]:g}"), Table(*table(results, name))]
    blocks.append(Paragraph(f"{results.splits()} splits. Written by `majorant reproduce latent`."))
    path = out / "latent.md"
    store.write_text(path, to_markdown(blocks))
    return path
