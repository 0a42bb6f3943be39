"""Chunking or tagging of CoNLL-2000 against CRFsuite: the same features, labels and objective, one thread each.

    pip install -e '.[bench]'
    MAJORANT_DATA=... OMP_NUM_THREADS=1 python -m benchmarks.chain [--task pos] [--c2 0.1] [--json FILE] [--plot FILE]
        [--skip l2sgd] [--c1 0.1]

Every method runs in a process of its own. Set-up is what turns lists of strings into the method's own data; training is
what follows, in seconds of the processor, as CRFsuite's log has them; of several threads, in seconds of the clock. Peak
memory is measured in a run of its own, which is fed by a generator and stops after thirty iterations. Other forms of
tokens are in :mod:`benchmarks.chain_tokens`, sources in :mod:`benchmarks.chain_stream`, chunks of a stream at the end;
``--only tokens`` and ``--only stream`` take these, ``--only memory`` and ``--only chunks`` those.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import os
import re
import resource
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks import chain_stream, chain_tokens, report
from majorant import ChainCRF
from majorant.cli.conll import CHUNKING, ColumnFile
from majorant.metrics import chunk_scores
from majorant.plotting import BLUE, ORANGE, VERMILION

LEVEL = 1.001
CERTIFIED = (1e-3, 1e-5)
GOOD_F1 = 0.936
C1, C2 = 0.0, 1.0
TASK = "chunking"
# Digits of MNIST are written one after the other: so many words, of so many digits, in steps of one up or down.
WORDS, DIGITS = {"train": 5000, "test": 1000}, 8


def column_file(name):
    """The train or test part of CoNLL-2000."""
    folder = os.environ.get("MAJORANT_DATA")
    if not folder:
        sys.exit("set MAJORANT_DATA to the folder that holds conll2000/ (see benchmarks/README.md)")
    return ColumnFile(str(Path(folder) / f"conll2000/{name}.txt.gz"))


def part(name):
    """Attributes and labels of train or test."""
    X, y = zip(*stream(name), strict=True)
    return list(X), list(y)


def stream(name):
    """The same, one sentence at a time."""
    if TASK == "digits":
        yield from digits(name)
        return
    for sentence in column_file(name):
        if TASK == "chunking":
            yield CHUNKING.extract([sentence])[0], sentence.labels(2)
        else:
            yield spelling(sentence.column(0)), sentence.labels(1)


def digits(name):
    """Words of handwritten digits that mostly count up: a token has an attribute for every dark pixel of 14 × 14."""
    folder, part = Path(os.environ["MAJORANT_DATA"]) / "mnist", {"train": "train", "test": "t10k"}[name]
    pixels, labels = (
        np.frombuffer(gzip.decompress((folder / f"{part}-{kind}-ubyte.gz").read_bytes()), np.uint8)
        for kind in ("images-idx3", "labels-idx1")
    )
    dark = pixels[16:].reshape(-1, 14, 2, 14, 2).max(axis=(2, 4)).reshape(-1, 196) > 127
    rng, labels = np.random.default_rng(0), labels[8:]
    of_digit = [np.flatnonzero(labels == digit) for digit in range(10)]
    for _ in range(WORDS[name]):
        steps = rng.choice([1, 1, 1, 1, 9, *range(10)], size=DIGITS)
        word = np.cumsum(steps) % 10
        images = [dark[rng.choice(of_digit[digit])] for digit in word]
        yield [[f"p{k}" for k in np.flatnonzero(image)] for image in images], [str(digit) for digit in word]


def spelling(words):
    """What tells the part of speech of a word: itself, its neighbours, how it begins, ends and looks."""
    padded = ["<s>", *words, "</s>"]
    return [
        [
            "bias",
            f"w={word}",
            f"w-1={before}",
            f"w+1={after}",
            f"w-1|w={before}|{word}",
            f"low={word.lower()}",
            f"shape={re.sub('[a-z]+', 'x', re.sub('[A-Z]+', 'X', re.sub('[0-9]+', '0', word)))}",
            *(f"pre={word[:k]}" for k in range(1, 4)),
            *(f"suf={word[-k:]}" for k in range(1, 5)),
        ]
        for before, word, after in zip(padded, words, padded[2:], strict=False)
    ]


def crfsuite(algorithm):
    def run():
        import pycrfsuite

        X, y = part("train")
        trainer = pycrfsuite.Trainer(algorithm=algorithm, verbose=False, params={"c2": C2})
        if algorithm == "lbfgs":
            trainer.set("c1", C1)
        started = time.perf_counter()
        for tokens, labels in zip(X, y, strict=True):
            trainer.append(tokens, labels)
        setup = time.perf_counter() - started
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "model")
            trainer.train(path)
            curve = [(i["time"], i["loss"]) for i in trainer.logparser.iterations if "loss" in i]
            tagger = pycrfsuite.Tagger()
            tagger.open(path)
            f1, seconds = measure(lambda tests: [tagger.tag(tokens) for tokens in tests])
            weights = len(tagger.info().state_features) + len(tagger.info().transitions)
        times = np.cumsum([t for t, _ in curve])
        measured = {"F1": f1, "tagging": seconds, "weights": weights}
        return {"setup": setup, "seconds": times.tolist(), "loss": [v for _, v in curve], **measured}

    return run


def averaged_perceptron():
    import pycrfsuite

    X, y = part("train")
    trainer = pycrfsuite.Trainer(algorithm="ap", verbose=False)
    for tokens, labels in zip(X, y, strict=True):
        trainer.append(tokens, labels)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        started = time.perf_counter()
        trainer.train(path)
        seconds = time.perf_counter() - started
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        f1, tagging = measure(lambda tests: [tagger.tag(tokens) for tokens in tests])
    return {"seconds": [seconds], "loss": [float("nan")], "F1": f1, "tagging": tagging}


def ours(threads, solver="auto"):
    def run():
        X, y = part("train")
        for c2 in (C2, 1e-3):  # compile, also what follows where dual ascent ends
            ChainCRF(solver=solver, c1=C1, c2=c2, n_jobs=threads, max_iter=5).fit(X[:2000], y[:2000])
        model = ChainCRF(c1=C1, c2=C2, solver=solver, n_jobs=threads, tol=min(CERTIFIED))
        started = time.perf_counter()
        model.fit(X, y)
        total = time.perf_counter() - started
        f1, tagging = measure(model.predict)
        trace = model.trace_
        return {
            "setup": total - float(trace["seconds"][-1]),  # the trace holds all else, certificates included
            "seconds": trace["cpu_seconds" if threads == 1 else "seconds"].tolist(),
            "clock": trace["seconds"].tolist(),
            "loss": trace["objective"].tolist(),
            "gap": trace["gap"].tolist(),
            "F1": f1,
            "tagging": tagging,
            "weights": len(model.state_features_) + len(model.transition_features_),
        }

    return run


def crfsuite_to_f1():
    """Seconds of CRFsuite's L-BFGS to a chunk F1 of 0.936: shorter runs, until one is good enough."""
    import pycrfsuite

    X, y = part("train")
    for iterations in (40, 60, 80, 100, 120, 140):
        params = {"c2": C2, "c1": C1, "max_iterations": iterations}
        trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False, params=params)
        for tokens, labels in zip(X, y, strict=True):
            trainer.append(tokens, labels)
        with tempfile.TemporaryDirectory() as folder:
            trainer.train(str(Path(folder) / "model"))
            tagger = pycrfsuite.Tagger()
            tagger.open(str(Path(folder) / "model"))
            f1, _ = measure(lambda tests, tagger=tagger: [tagger.tag(tokens) for tokens in tests])
        if f1 >= GOOD_F1:
            return {"to F1": sum(i["time"] for i in trainer.logparser.iterations if "time" in i)}
    return {}


def ours_to_f1(threads):
    """The same for ours."""

    def run():
        X, y = part("train")
        for iterations in (0, 1, 2, 4, 8):
            model = ChainCRF(c1=C1, c2=C2, max_iter=iterations, n_jobs=threads).fit(X, y)
            if measure(model.predict)[0] >= GOOD_F1:
                return {"to F1": float(model.trace_["seconds"][-1])}
        return {}

    return run


def memory_of_crfsuite():
    import pycrfsuite

    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False, params={"c2": C2, "c1": C1, "max_iterations": 30})
    for tokens, labels in stream("train"):
        trainer.append(tokens, labels)
    with tempfile.TemporaryDirectory() as folder:
        trainer.train(str(Path(folder) / "model"))
    return peak()


def memory_of_ours():
    X, y = (tokens for tokens, _ in stream("train")), (labels for _, labels in stream("train"))
    ChainCRF(c1=C1, c2=C2, max_iter=30).fit(X, y)
    return peak()


def peak():
    return {"peak MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def measure(predict):
    """Chunk F1 on the test part (of tags: the share that is right), and seconds to label it, the better of two."""
    X, y = part("test")
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        predicted = predict(X)
        seconds.append(time.perf_counter() - started)
    if TASK == "chunking":
        return chunk_scores(y, predicted).overall.f1, min(seconds)
    right = [a == b for labels, found in zip(y, predicted, strict=True) for a, b in zip(labels, found, strict=True)]
    return float(np.mean(right)), min(seconds)


METHODS = {
    "CRFsuite lbfgs": crfsuite("lbfgs"),
    "CRFsuite l2sgd": crfsuite("l2sgd"),
    "CRFsuite ap": averaged_perceptron,
    "majorant, 1 thread": ours(1),
    "majorant, 2 threads": ours(2),
    "majorant, one online pass": ours(1, "proximal"),
}
BESIDES = {
    "CRFsuite lbfgs": (memory_of_crfsuite, crfsuite_to_f1),
    "majorant, 1 thread": (memory_of_ours, ours_to_f1(1)),
    "majorant, 2 threads": (ours_to_f1(2),),
}


def alone(run):
    """Return what a function returns in a process of its own."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def work():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            sender.send(run())

    process = context.Process(target=work)
    process.start()
    sender.close()  # so that a process that fails does not leave us waiting
    answer = receiver.recv()
    process.join()
    return answer


def first(result, reached):
    """Seconds to the first step at which something was reached."""
    return result["seconds"][int(reached.argmax())] if reached.any() else float("nan")


def table(results):
    optimum = min(min(r["loss"]) for r in results.values() if np.isfinite(r["loss"]).all())
    rows = []
    for name, result in results.items():
        reached = np.array(result["loss"]) <= LEVEL * optimum
        rows.append(
            {
                "method": name,
                "set-up s": result.get("setup", float("nan")),
                f"s to {LEVEL} × optimum": first(result, reached),
                **{f"s to gap {tol:g}": first(result, np.array(result.get("gap", [1.0])) <= tol) for tol in CERTIFIED},
                f"s to F1 {GOOD_F1}": result.get("to F1", float("nan")),
                "s in all": result["seconds"][-1],
                "loss": result["loss"][-1],
                "F1": result["F1"],
                "weights": result.get("weights", float("nan")),
                "tagging s": result["tagging"],
                "peak MB": result.get("peak MB", float("nan")),
            }
        )
    return rows


def speedups(rows):
    """How many times faster than CRFsuite's L-BFGS gets to 1.001 times the optimum."""
    columns = [f"s to {LEVEL} × optimum", *(f"s to gap {tol:g}" for tol in CERTIFIED)]
    peer = next((row for row in rows if row["method"] == "CRFsuite lbfgs"), {})
    return [
        {
            "what": row["method"],
            **{column: peer.get(columns[0], float("nan")) / row[column] for column in columns},
            "set-up included": (peer.get(columns[0], float("nan")) + peer.get("set-up s", float("nan")))
            / (row[columns[0]] + row["set-up s"]),
        }
        for row in rows
        if row["method"] != "CRFsuite lbfgs"
    ]


def plot(results, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    optimum = min(min(r["loss"]) for r in results.values() if np.isfinite(r["loss"]).all())
    figure, axis = plt.subplots(figsize=(7, 4), layout="constrained")
    styles = {
        "CRFsuite lbfgs": (VERMILION, "-"),
        "CRFsuite l2sgd": (ORANGE, "-"),
        "majorant, 1 thread": (BLUE, "-"),
        "majorant, 2 threads": (BLUE, "--"),
    }
    for name, (colour, line) in styles.items():
        if name in results:
            excess = np.array(results[name]["loss"]) / optimum - 1
            seconds = np.array(results[name]["seconds"])
            shown = excess > 1e-6
            axis.plot(seconds[shown], excess[shown], color=colour, ls=line, lw=2)
            axis.annotate(
                name, (seconds[shown][-1], excess[shown][-1]), (6, 0), textcoords="offset points", color=colour
            )
    axis.axhline(LEVEL - 1, color="grey", lw=0.8, ls=":")
    axis.set(xscale="log", yscale="log", xlabel="seconds of training", ylabel="relative excess of the objective")
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25)
    axis.margins(x=0.25)
    figure.savefig(path, dpi=150)


def tokens_in_every_form():
    train, test = part("train"), part("test")
    rows = [alone(lambda form=form: chain_tokens.read(form, train, test)) for form in chain_tokens.FORMS]
    report.show("tokens in every form: ours against CRFsuite, seconds of the processor", rows)


def memory():
    theirs, ours = alone(memory_of_crfsuite)["peak MB"], alone(memory_of_ours)["peak MB"]
    report.show("peak memory", [{"CRFsuite MB": theirs, "ours MB": ours, "ratio": ours / theirs}])


def chunks():
    """What ten sentences more cost a stream that has seen few or many."""
    (X, y), (X_test, y_test) = part("train"), part("test")
    classes, rows = sorted({label for labels in (*y, *y_test) for label in labels}), []
    for seen in (200, 1000, 4000, len(X)):
        model = ChainCRF(c2=C2).partial_fit(X[:seen], y[:seen], classes=classes)
        seconds = []
        for k in range(0, 300, 10):
            started = time.process_time()
            model.partial_fit(X_test[k : k + 10], y_test[k : k + 10])
            seconds.append(time.process_time() - started)
        rows.append({"sentences seen": seen, "ms a chunk": 1000 * float(np.median(seconds))})
    report.show("ten sentences more", rows)


def sources():
    """Peak memory of sentences that are read chunk by chunk, beside fits in memory."""
    rows = chain_stream.measured(lambda: stream("train"), C2, peak, alone)
    report.show("CoNLL-2000, repeated: read chunk by chunk, or in memory", rows)


MORE = {"tokens": tokens_in_every_form, "memory": memory, "chunks": chunks, "stream": sources}


def train_all(kept, skip, quick):
    """Run every method that is not kept yet."""
    results = json.loads(kept.read_text()) if kept and kept.exists() else {}
    for name, run in METHODS.items():
        if name in results or any(text in name for text in skip):
            continue
        results[name] = alone(run)
        for more in () if quick or TASK != "chunking" else BESIDES.get(name, ()):
            results[name] |= alone(more)
        if kept:
            kept.write_text(json.dumps(results))
        print(name, {k: v for k, v in results[name].items() if not isinstance(v, list)}, flush=True)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", help="keep every run in this file; what is already there is not run again")
    parser.add_argument("--plot", help="draw the curves here")
    parser.add_argument("--skip", action="append", default=[], help="leave out methods whose name contains this text")
    parser.add_argument("--task", choices=("chunking", "pos", "digits"), default=TASK, help="what is labelled")
    parser.add_argument("--c1", type=float, default=C1, help="the ℓ1 penalty: then CRFsuite's l2sgd is left out")
    parser.add_argument("--c2", type=float, default=C2, help="the ℓ2 penalty")
    parser.add_argument("--quick", action="store_true", help="training alone: neither memory, tokens nor chunks")
    parser.add_argument("--only", choices=MORE, help="take one of the other measurements alone")
    arguments = parser.parse_args()
    globals().update(TASK=arguments.task, C1=arguments.c1, C2=arguments.c2)
    if C1:
        arguments.skip += ["l2sgd", "ap", "online"]
    if arguments.only:
        MORE[arguments.only]()
        return
    results = train_all(Path(arguments.json) if arguments.json else None, arguments.skip, arguments.quick)
    rows = table(results)
    report.show(f"{TASK}, c1 = {C1:g}, c2 = {C2:g}", rows)
    report.show(f"times faster than CRFsuite's L-BFGS is to {LEVEL} × optimum", speedups(rows))
    if not arguments.quick:
        tokens_in_every_form()
        chunks()
    if arguments.plot:
        plot(results, arguments.plot)


if __name__ == "__main__":
    main()
