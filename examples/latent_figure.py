"""Why hidden states: what a linear model can and cannot separate, and which states it takes.

python -m examples.latent_figure docs/figures/latent.png
"""

import sys

import numpy as np

from majorant import (
    LBFGS,
    Labelled,
    LatentLogisticRegression,
    LatentMultinomial,
    LogisticRegression,
    Multinomial,
    Objective,
    QuasiNewton,
    datasets,
    held_out,
    minimize,
)
from majorant.plotting import BLUE, GREEN, ORANGE, VERMILION, pyplot, save

COLOURS = (BLUE, ORANGE)
STARTS = 3
MARKERS = "o^s"


def quadrants(rng):
    X = rng.normal(size=(600, 2))
    noise = rng.uniform(size=600) < 0.05
    return X, np.where(noise, rng.integers(0, 2, size=600), (X[:, 0] * X[:, 1] > 0)).astype(int)


def draw_row(axes, name, X, y, states, C):
    """A linear model and one with hidden states, fitted to half of the rows, scored on the others."""
    half = len(y) // 2
    linear = LogisticRegression(C=C).fit(X[:half], y[:half])
    latent = LatentLogisticRegression(states, C=C).fit(X[:half], y[:half])
    for axis, model, what in ((axes[0], linear, "linear"), (axes[1], latent, "two hidden states a class")):
        p = model.predict_log_proba(X[half:])[np.arange(len(y) - half), y[half:]]
        draw(axis, model, X, y)
        axis.set_title(f"{name}, {what}\nheld-out log-likelihood {p.mean():.2f} a row".replace("-0", "−0"), fontsize=11)


def draw(axis, model, X, y):
    """Regions in pale colours; rows in full ones, their markers the states that they are likeliest in."""
    low, high = X.min(axis=0) - 0.3, X.max(axis=0) + 0.3
    x0, x1 = (np.linspace(a, b, 300) for a, b in zip(low, high, strict=True))
    grid = np.column_stack([each.ravel() for each in np.meshgrid(x0, x1)])
    regions = model.predict(grid).reshape(300, 300)
    axis.contourf(x0, x1, regions, levels=[-0.5, 0.5, 1.5], colors=COLOURS, alpha=0.18)
    hidden = isinstance(model, LatentLogisticRegression)
    state = model.predict_latent(X, y) if hidden else np.zeros(len(y), dtype=int)
    for label in model.classes_:
        for m in range(2):
            some = (y == label) & (state == m)
            axis.plot(*X[some].T, MARKERS[m], color=COLOURS[label], ms=4, mew=0.3, mec="white")
    axis.set(xticks=[], yticks=[], xlim=(low[0], high[0]), ylim=(low[1], high[1]))


def letters():
    """Training and test data of Letter, official split, columns standardised."""
    X, y = datasets.load("letter")
    X = (X[:, :-1] - X[:16_000, :-1].mean(axis=0)) / X[:16_000, :-1].std(axis=0)
    return tuple(Labelled(X[some], y[some], constant=True) for some in (slice(16_000), slice(16_000, None)))


def likelihoods(train, test, states, solver):
    """Held-out log-likelihoods from a few starts, and the best of the fits."""
    model = LatentMultinomial([states] * 26)
    F, metric = Objective(model, train, ridge=1.0), held_out(model, test)["test_log_likelihood"]
    runs = [minimize(F, solver, start=F.first_params(seed), tol=1e-5, max_steps=2000) for seed in range(STARTS)]
    return [metric(run.params) for run in runs], min(runs, key=lambda run: run.trace["objective"][-1]).params


def draw_letters(axes):
    """How much states help on Letter, and what those of one letter tell apart."""
    train, test = letters()
    plain = Objective(Multinomial(26), train, ridge=1.0)
    linear = minimize(plain, QuasiNewton()).params
    at_one = held_out(plain.model, test)["test_log_likelihood"](linear)
    for name, solver, colour, mark in (("majorant", QuasiNewton(), BLUE, "o"), ("L-BFGS", LBFGS(), VERMILION, "x")):
        found = {states: likelihoods(train, test, states, solver) for states in (2, 3, 4)}
        means = [at_one, *(np.mean(found[states][0]) for states in found)]
        axes[0].plot([1, 2, 3, 4], means, color=colour, lw=1.5, label=f"{name}, mean of {STARTS} starts")
        for states, (each, _) in found.items():
            axes[0].plot([states] * STARTS, each, mark, color=colour, ms=5)
        if name == "majorant":
            draw_states_of_a_letter(axes[1], train, linear, found[3][1])
    axes[0].set(xlabel="hidden states a class", xticks=[1, 2, 3, 4], ylabel="held-out log-likelihood a row")
    axes[0].set_title("Letter: 16,000 rows, 26 classes", fontsize=11)
    axes[0].legend(frameon=False)


def draw_states_of_a_letter(axis, train, linear, params):
    """The letter that gains most, in the plane of the scores that tell its three states apart."""
    model = LatentMultinomial([3] * 26)
    by_class = model.class_scores(model.scores(params, train))
    gains = log_p(by_class, train.y) - log_p(Multinomial(26).scores(linear, train), train.y)
    letter = int(np.argmax(np.bincount(train.y, weights=gains) / np.bincount(train.y)))
    W = params.reshape(26, 3, -1)[letter]
    scores = (W[1:] - W[0]) @ train.design.dense()[train.y == letter].T
    state = np.argmax(np.vstack([np.zeros(scores.shape[1]), scores]), axis=0)
    for m, colour in enumerate((BLUE, ORANGE, GREEN)):
        axis.plot(*scores[:, state == m], MARKERS[m], color=colour, ms=4, mew=0.3, mec="white", label=f"state {m}")
    axis.set(xlabel="score of state 1 less that of state 0", ylabel="score of state 2 less that of state 0")
    axis.set_title(f"Rows of the letter {chr(65 + letter)}, by their likeliest state", fontsize=11)
    axis.legend(frameon=False)


def log_p(scores, y):
    return scores[y, np.arange(len(y))] - np.logaddexp.reduce(scores, axis=0)


def main(path: str = "latent.png") -> None:
    plt = pyplot()
    real = datasets.available("letter")
    with plt.rc_context({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False}):
        figure, axes = plt.subplots(1 + real, 2, figsize=(9.5, 4.2 * (1 + real)), layout="constrained", squeeze=False)
        draw_row(axes[0], "Quadrants", *quadrants(np.random.default_rng(1)), states=2, C=10.0)
        if real:
            draw_letters(axes[1])
        save(figure, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
