"""Discrete choice: conditional logits and latent classes against other packages, and at the size of a shop.

    python -m benchmarks.choice [--only TEXT] [--json FILE]

MAJORANT_DATA names the data. Packages that are not installed are left out: xlogit, statsmodels, choice-learn (which
brings TensorFlow; it is measured in a process of its own, by the interpreter that CHOICE_LEARN_PYTHON names).
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from contextlib import redirect_stdout
from importlib.util import find_spec

import numpy as np
import pandas as pd

from benchmarks import report
from majorant import ConditionalLogit, LatentClassLogit
from tests.choice_data import ELECTRICITY, SWISSMETRO_14, electricity, swissmetro

REPEATS = 7


def long_swissmetro():
    """Return X, y, groups, alternatives and names of the model of 14 parameters, written out; availability as well."""
    frame, names = swissmetro(), ["train", "sm", "car"]
    columns = ["asc_train", "asc_sm", *SWISSMETRO_14]
    X = np.zeros((len(frame), 3, len(columns)))
    X[:, 0, 0] = X[:, 1, 1] = 1.0
    for k, of in enumerate(SWISSMETRO_14.values(), start=2):
        for alternative, column in of.items():
            X[:, names.index(alternative), k] = frame[column]
    y = np.eye(3)[frame.CHOICE.to_numpy() - 1]
    open_ = frame[["TRAIN_AV", "SM_AV", "CAR_AV"]].to_numpy()
    return X.reshape(-1, len(columns)), y.ravel(), np.repeat(np.arange(len(frame)), 3), columns, open_.ravel()


def long_electricity():
    frame = electricity()
    return frame[ELECTRICITY].to_numpy(float), frame.choice.to_numpy(float), frame.chid.to_numpy(), ELECTRICITY, None


def ours(X, y, groups, names, open_):
    here = slice(None) if open_ is None else open_ == 1
    model = ConditionalLogit().fit(X[here], y[here], groups[here])
    model.summary()
    return model.log_likelihood_


def of_xlogit(X, y, groups, names, open_):
    from xlogit import MultinomialLogit

    size = int(np.bincount(np.unique(groups, return_inverse=True)[1]).max())
    model = MultinomialLogit()
    with redirect_stdout(io.StringIO()):
        labels = np.tile(np.arange(size), len(X) // size)
        model.fit(X, y, varnames=list(names), alts=labels, ids=groups, avail=open_, verbose=0)
    return float(model.loglikelihood)


def of_statsmodels(X, y, groups, names, open_):
    from statsmodels.discrete.conditional_models import ConditionalLogit as Theirs

    here = slice(None) if open_ is None else open_ == 1
    found = Theirs(y[here], X[here], groups=groups[here]).fit(method="bfgs", maxiter=500, disp=0)
    return float(found.llf)


def timed(run, data, repeats):
    """Return what was found, and the median of CPU seconds."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        found = run(*data)
        seconds.append(time.process_time() - started)
    return found, float(np.median(seconds))


def against_others():
    rows = []
    peers = {"majorant": (ours, REPEATS), "xlogit": (of_xlogit, REPEATS), "statsmodels": (of_statsmodels, 1)}
    for name, load in (("swissmetro", long_swissmetro), ("electricity", long_electricity)):
        data = load()
        ours(*data)  # what is compiled or imported is not counted
        least = None
        for peer, (run, repeats) in peers.items():
            if peer != "majorant" and not find_spec(peer):
                continue
            found, seconds = timed(run, data, repeats)
            least = seconds if least is None else least
            row = dict(data=name, package=peer, cpu_seconds=seconds, times_ours=seconds / least)
            rows.append(row | dict(log_likelihood=f"{found:.6f}"))
            report.show(name, rows[-1:])
    return rows


# --- a shop -----------------------------------------------------------------------------------------------


def shop(records=200_000, items=500, users=500, latent=30, seed=42):
    """Return a data frame of choices, and the attributes of items; generated as torch-choice's benchmark does.

    Users and items lie in five clusters; users mostly take what suits them best, at prices that vary, and sometimes
    anything that is there.
    """
    rng = np.random.default_rng(seed)

    def clustered(count):
        centres = 3.0 * rng.normal(size=(5, latent))
        return np.repeat(centres, count // 5, axis=0) + 0.5 * rng.normal(size=(count, latent))

    of_users, of_items = clustered(users), clustered(items)
    suits, prices = of_users @ of_items.T, np.maximum(10 + 3 * rng.normal(size=items), 1.0)
    dislike, who, taken = -1.5 + 0.5 * rng.normal(size=users), rng.integers(users, size=records), []
    for some in np.array_split(who, records // 2000):
        shape = (len(some), items)
        utility = suits[some] + dislike[some, None] * np.maximum(prices + 0.6 * rng.normal(size=shape), 1.0)
        utility += 0.7 * rng.normal(size=shape)
        utility[rng.random(shape) > 0.9] = -np.inf
        soft = rng.random(len(some)) < 0.35
        best = np.where(soft, (utility / 2.0 + rng.gumbel(size=shape)).argmax(axis=1), utility.argmax(axis=1))
        taken.append(np.where(rng.random(len(some)) < 0.15, rng.integers(items, size=len(some)), best))
    frame = pd.DataFrame(of_users[who], columns=[f"user{k}" for k in range(latent)])
    return frame.assign(item=np.concatenate(taken)), of_items


def generic():
    frame, of_items = shop()
    varying = {f"item{k}": dict(enumerate(of_items[:, k].tolist())) for k in range(of_items.shape[1])}
    started = time.perf_counter(), time.process_time()
    model = ConditionalLogit.from_wide(
        frame, choice="item", alternatives=range(500), varying=varying, constants=False, n_jobs=2
    )
    model.summary("robust")
    return [shop_row("30 generic", model, started)]


def by_item():
    frame, of_items = shop()
    varying = {f"item{k}": dict(enumerate(of_items[:, k].tolist())) for k in range(of_items.shape[1])}
    fixed = [f"user{k}" for k in range(30)]
    started = time.perf_counter(), time.process_time()
    model = ConditionalLogit.from_wide(
        frame, choice="item", alternatives=range(500), varying=varying, fixed=fixed, constants=False, n_jobs=2
    )
    model.summary()
    return [shop_row("30 generic + 30 an item", model, started)]


def shop_row(what, model, started):
    wall, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
    row = dict(model=what, parameters=len(model.coef_), sets=len(model._sample.sets), seconds=wall, cpu_seconds=cpu)
    print(model.result_)
    return row | dict(
        steps=model.n_iter_, log_likelihood=f"{model.log_likelihood_:.4f}", outcome=model.result_.outcome.value
    )


# --- latent classes ---------------------------------------------------------------------------------------

CHOICE_LEARN = """
import json, sys, time
import numpy as np, pandas as pd
from choice_learn.data import ChoiceDataset
from choice_learn.models.latent_class_mnl import LatentClassConditionalLogit
frame, classes = pd.read_csv(sys.argv[1]), int(sys.argv[2])
names = ["pf", "cl", "loc", "wk", "tod", "seas"]
X = frame[names].to_numpy("float32").reshape(-1, 4, 6)
choices = frame.choice.to_numpy().reshape(-1, 4).argmax(axis=1)
data = ChoiceDataset(choices=choices, items_features_by_choice=X, items_features_by_choice_names=names)
model = LatentClassConditionalLogit(
    n_latent_classes=classes, fit_method="mle", optimizer="lbfgs", epochs=1000, lbfgs_tolerance=1e-7
)
for name in names:
    model.add_shared_coefficient(coefficient_name=name, feature_name=name, items_indexes=[0, 1, 2, 3])
started = time.perf_counter(), time.process_time()
model.fit(data)
wall, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
print(json.dumps(dict(wall=wall, cpu=cpu, nll=float(model.evaluate(data)))))
"""


def latent():
    frame, rows = electricity(), []
    some = frame[:3000]
    LatentClassLogit(2, n_init=1).fit(some[ELECTRICITY], some.choice, some.chid, some.id)  # compiled
    for name, part, classes in (("750 situations", some, 2), ("all", frame, 2), ("all", frame, 3)):
        started = time.perf_counter(), time.process_time()
        model = LatentClassLogit(classes).fit(part[ELECTRICITY], part.choice, part.chid, part.id)
        model.summary()
        wall, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
        ends = model.start_log_likelihoods_
        at_best = int((ends > ends.max() - 1e-3).sum())
        row = dict(data=name, classes=classes, package="majorant, 10 starts", seconds=wall, cpu_seconds=cpu)
        rows.append(row | dict(log_likelihood=f"{model.log_likelihood_:.6f}", at_best=at_best))
    for classes in (2, 3):
        rows += choice_learn(classes)
    return rows


def choice_learn(classes):
    """One fit of choice-learn's latent classes: of choices, since it knows nothing of people; another likelihood."""
    python = os.environ.get("CHOICE_LEARN_PYTHON", sys.executable)
    path = os.path.join(os.environ["MAJORANT_DATA"], "choice", "electricity.csv.gz")
    done = subprocess.run([python, "-c", CHOICE_LEARN, path, str(classes)], capture_output=True, text=True, timeout=600)
    if done.returncode:
        why = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        print(f"choice-learn was not measured: {why}")
        return []
    found = json.loads(done.stdout.strip().splitlines()[-1])
    row = dict(
        data="all", classes=classes, package="choice-learn, 1 fit", seconds=found["wall"], cpu_seconds=found["cpu"]
    )
    return [row | dict(log_likelihood=f"{-found['nll'] * 4308:.2f} (not a panel)", at_best="")]


if __name__ == "__main__":
    report.run(
        __doc__,
        {
            "against others": against_others,
            "a shop: 200,000 choices of 500 items": generic,
            "a shop, by item: 200,000 choices of 500 items": by_item,
            "latent classes of electricity": latent,
        },
    )
