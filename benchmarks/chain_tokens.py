"""How fast tokens are read, in every form that people write them in: set-up and tagging against CRFsuite, by turns.

Seconds of the processor, the best of a few. CRFsuite's set-up hands over its sequences; ours finds the features as
well, which CRFsuite does at the beginning of training.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from majorant import ChainCRF

SETUPS, TAGGINGS = 3, 5


def named(attribute):
    name, _, value = attribute.partition("=")
    return (name, value) if value else (name, True)


FORMS = {
    "lists of strings": lambda token: token,
    "{name: 'text'}": lambda token: dict(map(named, token)),
    "{name: True}": lambda token: dict.fromkeys(token, True),
    "{name: 1.0}": lambda token: dict.fromkeys(token, 1.0),
    "{name: number}": lambda token: {name: 0.5 + 0.25 * (k % 5) for k, name in enumerate(token)},
}


def in_form(X, form):
    return [[FORMS[form](token) for token in tokens] for tokens in X]


def best(times, *works):
    """The least seconds of each of some functions, called by turns, and what each returned last."""
    seconds, found = [float("inf")] * len(works), [None] * len(works)
    for _ in range(times):
        for k, work in enumerate(works):
            found[k] = None  # not two of them at a time
            started = time.process_time()
            found[k] = work()
            seconds[k] = min(seconds[k], time.process_time() - started)
    return seconds, found


def handed_over(X, y):
    import pycrfsuite

    trainer = pycrfsuite.Trainer(verbose=False, params={"c1": 0.0, "c2": 1.0, "max_iterations": 5})
    for tokens, labels in zip(X, y, strict=True):
        trainer.append(tokens, labels)
    return trainer


def tagger_of(trainer, folder):
    import pycrfsuite

    trainer.train(str(Path(folder) / "model"))
    tagger = pycrfsuite.Tagger()
    tagger.open(str(Path(folder) / "model"))
    return tagger


def read(form, train, test):
    """A row of the table: seconds and ratios of one form."""
    (X, y), X_test = train, in_form(test[0], form)
    X = in_form(X, form)
    ChainCRF(solver="lbfgs", max_iter=1).fit(X[:50], y[:50]).predict(X_test[:50])  # compile
    setup, (trainer, _) = best(
        SETUPS,
        lambda: handed_over(X, y),
        lambda: ChainCRF(solver="lbfgs", max_iter=0)._prepared(X, y, None, None, None),
    )
    model = ChainCRF(solver="lbfgs", max_iter=5).fit(X, y)
    with tempfile.TemporaryDirectory() as folder:
        tagger = tagger_of(trainer, folder)
        (theirs, ours, single), _ = best(
            TAGGINGS,
            lambda: [tagger.tag(tokens) for tokens in X_test],
            lambda: model.predict(X_test),
            lambda: [model.predict_single(tokens) for tokens in X_test],
        )
    return {
        "tokens": form,
        "set-up s, CRFsuite": setup[0],
        "set-up s, ours": setup[1],
        "set-up ratio": setup[1] / setup[0],
        "tagging s, CRFsuite": theirs,
        "tagging s, ours": ours,
        "tagging ratio": ours / theirs,
        "one by one": single / theirs,
    }
