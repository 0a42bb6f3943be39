"""What the package does, in three comparisons and a picture (``make demo``).

    python -m examples.demo [out/demo.png]

Every number is measured here: seconds are those of the wall clock, one fit each.
"""

import sys
import time
import warnings

import numpy as np
import sklearn.linear_model
from sklearn.datasets import load_breast_cancer
from threadpoolctl import threadpool_limits

import majorant
from majorant.plotting import BLUE, ORANGE, VERMILION, pyplot, save

ITERATIONS = (10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)


def timed(fit):
    begun = time.perf_counter()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = fit()
    return found, time.perf_counter() - begun, [str(each.message).splitlines()[0] for each in said]


def objective(model, X, y):
    """What both packages minimise, with C = 1."""
    log = model.predict_log_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    return 0.5 * float(np.square(model.coef_).sum()) - float(log.sum())


def breast_cancer(axis):
    """Both defaults on columns as they come, from 0.001 to 4,000."""
    X, y = load_breast_cancer(return_X_y=True)
    print("1. Breast cancer (569 × 30, columns as they come), default settings")
    makers = {"scikit-learn": sklearn.linear_model.LogisticRegression, "majorant": majorant.LogisticRegression}
    values = {}
    for name, make in makers.items():
        make().fit(X, y)  # what a first call loads
        model, seconds, said = timed(lambda make=make: make().fit(X, y))
        values[name] = objective(model, X, y)
        print(
            f"   {name:<13} objective {values[name]:.1f} in {1e3 * seconds:.0f} ms;", said[0] if said else model.result_
        )
    best = objective(majorant.LogisticRegression(tol=1e-12).fit(X, y), X, y)
    above = []
    for iterations in ITERATIONS:
        model, _, _ = timed(lambda n=iterations: sklearn.linear_model.LogisticRegression(max_iter=n).fit(X, y))
        above.append(objective(model, X, y) / best - 1)
    steps = majorant.LogisticRegression(tol=1e-12).fit(X, y).trace_["objective"]
    axis.loglog(ITERATIONS, above, "o-", color=ORANGE, label="scikit-learn, max_iter")
    axis.loglog(
        np.arange(1, len(steps)),
        np.maximum(steps[1:] / steps[-1] - 1, 1e-12),
        "s-",
        color=BLUE,
        label="majorant, steps",
    )
    axis.axvline(100, color="0.6", lw=0.8, ls=":", label="scikit-learn's default limit")
    axis.set(
        title="Breast cancer, unscaled", xlabel="iterations", ylabel="objective above the optimum", ylim=(1e-9, 20)
    )
    axis.legend(frameon=False)


def sentences(count, rng):
    """Words that hint at their tags, in an order that tells the rest."""
    stay = 0.1 + 0.7 * np.eye(5) / 1.0
    rows, tags = [], []
    for _ in range(count):
        tag, words, labels = int(rng.integers(5)), [], []
        for _ in range(int(rng.integers(5, 25))):
            tag = int(rng.choice(5, p=stay[tag] / stay[tag].sum()))
            word = int(rng.zipf(1.3)) % 2_000
            words.append(f"{word}-{tag if rng.random() < 0.6 else rng.integers(5)}")
            labels.append(f"T{tag}")
        rows.append(
            [
                [f"w={w}", f"before={b}", f"after={a}"]
                for b, w, a in zip(["", *words], words, [*words[1:], ""], strict=False)
            ]
        )
        tags.append(labels)
    return rows, tags


def chain(path):
    """A conditional random field with the same penalty; CRFsuite writes its model to a path."""
    rng = np.random.default_rng(0)
    (X, y), (held_out, tags) = sentences(1_500, rng), sentences(300, rng)
    print(f"2. A conditional random field on {len(X)} generated sentences, c2 = 1")
    majorant.ChainCRF(c2=1.0).fit(X[:30], y[:30])  # what a first call loads
    model, seconds, _ = timed(lambda: majorant.ChainCRF(c2=1.0).fit(X, y))
    right = np.mean(
        [
            a == b
            for said, true in zip(model.predict(held_out), tags, strict=True)
            for a, b in zip(said, true, strict=True)
        ]
    )
    print(f"   majorant      {right:.1%} of held-out tags in {seconds:.1f} s; {model.result_}")
    try:
        import pycrfsuite
    except ImportError:
        print("   CRFsuite      is not installed (pip install python-crfsuite)")
        return
    trainer = pycrfsuite.Trainer(verbose=False)
    trainer.set_params({"c1": 0.0, "c2": 1.0})
    for words, labels in zip(X, y, strict=True):
        trainer.append(words, labels)
    _, seconds, _ = timed(lambda: trainer.train(path))
    tagger = pycrfsuite.Tagger()
    tagger.open(path)
    right = np.mean(
        [
            a == b
            for words, true in zip(held_out, tags, strict=True)
            for a, b in zip(tagger.tag(words), true, strict=True)
        ]
    )
    steps = trainer.logparser.last_iteration["num"]
    print(f"   CRFsuite      {right:.1%} of held-out tags in {seconds:.1f} s, {steps} iterations")


def two_passes(axis):
    """The paper's point: stochastic bound majorization needs no rate, and SGD is as good as its rate."""
    X, y = majorant.datasets.load("ecoli")
    F = majorant.Objective(majorant.Multinomial(8), majorant.Labelled(X, y), ridge=1.0)
    best = majorant.minimize(F, tol=1e-10).trace["objective"][-1]
    ours = majorant.minimize(F, majorant.ProximalMajorization(), max_steps=1).trace["objective"][-1]
    tuning = majorant.tune(F, schedules=["constant"], batch_sizes=[1], passes=2)
    print("3. Two passes over ecoli (336 × 8, 8 classes), above the optimum")
    print(f"   stochastic majorization, untuned      {ours / best - 1:.2%}")
    gain, least = tuning.best.gain, tuning.objective / best - 1
    print(f"   SGD at the best of {len(tuning.trials)} rates ({gain:.2g})    {least:.1%}")
    shown = [trial for trial in tuning.trials if trial.objective < np.inf]
    axis.loglog(
        [t.solver.gain for t in shown], [t.objective / best - 1 for t in shown], "o-", color=ORANGE, label="SGD"
    )
    axis.axhline(ours / best - 1, color=VERMILION, label="stochastic majorization, no rate")
    axis.set(title="Two passes over ecoli", xlabel="learning rate of SGD", ylabel="objective above the optimum")
    axis.legend(frameon=False)


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else "out/demo.png"
    figure, axes = pyplot().subplots(1, 2, figsize=(10, 4), layout="constrained")
    with threadpool_limits(1):
        breast_cancer(axes[0])
        chain(f"{out}.crfsuite")
        two_passes(axes[1])
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    save(figure, out)
    print(f"The picture is in {out}.")


if __name__ == "__main__":
    main()
