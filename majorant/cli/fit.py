"""``majorant fit``: train a logistic regression on files, in memory, pass by pass or in one pass."""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from majorant.cli.files import CHUNK_ROWS, Refusal
from majorant.cli.model_file import Unseen, check_model_path
from majorant.cli.options import (
    SOLVERS,
    AsJson,
    Learning,
    ManyData,
    Standardize,
    TableReading,
    Target,
    either,
    expanded,
    listed,
    option,
    reading,
)
from majorant.cli.output import note, on_terminal, progress, show, show_json, spoken_warnings
from majorant.core.checks import needed

if TYPE_CHECKING:
    from majorant import LogisticRegression
    from majorant.cli.readers import Tables
    from majorant.cli.schema import Schema, Wanted
    from majorant.cli.tables import Table
    from majorant.core.checks import Array

# Solvers that ask for sums over rows alone, which workers can find.
OF_SUMS = ("auto", "bbm", "newton", "scipy-lbfgs")
# Seconds that a scheduler has to answer, and then to name a worker.
PATIENCE = 5.0
LOCAL = re.compile(r"local(?::(\d+))?")

fitting = functools.partial(option, panel="The model")
testing = functools.partial(option, panel="Testing")
out_of_core = functools.partial(option, panel="Files larger than memory")
interrupted = functools.partial(option, panel="Long fits")


@dataclass(frozen=True)
class Model:
    """The model: options of the command, in a parameter of this type."""

    C: Annotated[float, fitting("Inverse of the penalty: larger fits closer.", "X", "--C")] = 1.0
    l1_ratio: Annotated[
        float, fitting("Share of the penalty that is ℓ1: coefficients become zero.", "X", min=0, max=1)
    ] = 0.0
    solver: Annotated[str, fitting(f"{either(SOLVERS)}.", "NAME")] = "auto"
    tol: Annotated[float, fitting("Certified relative suboptimality at which to stop.", "X")] = 1e-6
    max_iter: Annotated[int, fitting("Steps; of stochastic solvers, passes.", "N", min=0)] = 1000
    class_weight: Annotated[str | None, fitting("balanced, or such as yes=2,no=1.", "WEIGHTS")] = None
    intercept: Annotated[bool, fitting("Whether there is one.", None, "--intercept/--no-intercept")] = True
    penalize_intercept: Annotated[bool, fitting("Penalise it too, as sbm needs it.", None, "--penalize-intercept")] = (
        False
    )
    weight: Annotated[str | None, reading("Column of row weights.", "COL")] = None
    standardize: Standardize = False

    def settings(self, seed: int) -> dict[str, Any]:
        """Return the settings of the estimator."""
        text: Any = self.class_weight
        if text is not None and text != "balanced":
            from majorant.cli.tables import find_classes, match_classes

            pairs = [pair.rpartition("=") for pair in listed(text)]
            try:
                weights = {label: float(weight) for label, _, weight in pairs}
            except ValueError:
                raise typer.BadParameter(f"--class-weight must be balanced or such as yes=2,no=1, got {text}") from None
            # Labels that are whole numbers are numbers.
            classes = find_classes(weights, "class_weight")
            labels = match_classes(list(weights), classes, "--class-weight", lambda row: row)
            text = dict(zip(labels.tolist(), weights.values(), strict=True))
        names = ("C", "l1_ratio", "solver", "tol", "max_iter", "penalize_intercept")
        own = {name: getattr(self, name) for name in names}
        return own | {"fit_intercept": self.intercept, "class_weight": text, "random_state": seed}


@dataclass(frozen=True)
class OutOfCore:
    """How rows that need not fit in memory are read, and how a fit that was killed goes on: options of the command."""

    batches: Annotated[
        bool,
        out_of_core(
            "Find the same model as from memory, reading the files pass by pass, a chunk of rows at a time. A first "
            "pass finds classes, categories, means and scales. The rows are copied to the folder for temporary files "
            "(TMPDIR) if there is room, which is quicker to read. npz files are held, one at a time.",
            None,
            "--batches",
        ),
    ] = False
    stream: Annotated[
        bool,
        out_of_core(
            "Learn from one chunk of rows after the other, once, never holding the files. A first pass over them "
            "finds classes, categories, means and scales.",
            None,
            "--stream",
        ),
    ] = False
    classes: Annotated[
        str | None,
        out_of_core(
            "All labels, as a,b,c: saves the first pass of --stream; the first chunk then tells the rest.", "LABELS"
        ),
    ] = None
    chunk_rows: Annotated[
        int | None,
        out_of_core(
            f"Rows of a chunk; {CHUNK_ROWS} by default, or without --stream fewer if columns are many.", "N", min=1
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        out_of_core(
            "A Dask scheduler, such as tcp://host:8786, whose workers read the files and add up, one for each file or "
            "few row groups; local:4 starts four workers here. Implies --batches. Workers need the same paths.",
            "ADDRESS",
        ),
    ] = None
    checkpoint: Annotated[
        str | None,
        interrupted("Write now and then how far the fit has come, so that --resume can go on from there.", "FILE"),
    ] = None
    every: Annotated[float | None, interrupted("How often; 30 by default, 0: each step.", "SECONDS", min=0)] = None
    resume: Annotated[
        bool,
        interrupted(
            "Go on from the checkpoint, if there is one, to the model that an uninterrupted fit would have found.",
            None,
            "--resume",
        ),
    ] = False

    @property
    def in_batches(self) -> bool:
        """Whether the rows are read pass by pass."""
        return self.batches or self.scheduler is not None

    def check(self, solver: str, test_size: float | None) -> None:
        """Refuse options that do not go together."""
        kept, apart = self.checkpoint is not None, "keeps no rows for a test; use majorant evaluate on another file"
        for wrong, sentence in (
            (self.stream and self.in_batches, "--stream is one pass and --batches as many as it takes: choose one"),
            (self.stream and test_size is not None, f"a stream {apart}"),
            (self.in_batches and test_size is not None, f"--batches {apart}"),
            (
                self.classes is not None and not self.stream,
                "--classes goes with --stream; without it, the labels of the file are the classes",
            ),
            (self.stream and kept, "--checkpoint is for fits of several passes, not for --stream"),
            (self.resume and not kept, "--resume needs --checkpoint, the file to go on from"),
            (self.every is not None and not kept, "--every needs --checkpoint, the file to write"),
            (
                self.scheduler is not None and solver not in OF_SUMS,
                f"--scheduler goes with --solver {either(OF_SUMS)}, got {solver}",
            ),
        ):
            if wrong:
                raise typer.BadParameter(sentence)


@expanded
def fit(
    data: ManyData,
    target: Target = None,
    model: Annotated[
        str | None, option("The model to write; DATA.model.npz by default.", "FILE", "--model", "-m")
    ] = None,
    as_json: AsJson = False,
    *,
    settings: Model,
    learning: Learning,
    reading: TableReading,
    test_size: Annotated[float | None, testing("Share of each class to test on, not trained on.", "SHARE")] = None,
    seed: Annotated[int, testing("Which rows these are, and their order.", "N")] = 0,
    out_of_core: OutOfCore,
) -> None:
    """Train a logistic regression on files.

    Several files are one table. Columns of numbers are used as they are; each value of a column of text becomes a
    column of zeros and ones. Labels may be numbers or text. The model is saved; the command says why the fit stopped
    and how close to the optimum it is certified to be.

    Files that are larger than memory are read pass by pass (--batches: the same model, certified, however many passes
    that takes) or once (--stream: a good model of one pass).

    \b
    majorant fit flowers.csv --target species --drop id --test-size 0.2
    majorant fit clicks/ --target clicked --batches --checkpoint c.npz --resume
    majorant fit 'clicks-*.csv.gz' --target clicked --stream --classes 0,1
    """
    out_of_core.check(settings.solver, test_size)
    source, wanted = reading.source(*data), learning.wanted(target, settings.standardize, settings.weight)
    if out_of_core.in_batches and "-" in source.paths:
        raise typer.BadParameter("--batches reads the rows again and again: name a file, not standard input")
    first = data[0] if Path(data[0]).is_dir() else source.paths[0]
    path = model or f"{'stdin' if first == '-' else Path(first).resolve().name.split('.')[0]}.model.npz"
    check_model_path(path, *source.paths)
    estimator_settings = settings.settings(seed)
    checkpoint = out_of_core.checkpoint
    check_model_path(checkpoint, *source.paths)
    if checkpoint is not None and Path(checkpoint).resolve() == Path(path).resolve():
        raise typer.BadParameter(f"--checkpoint and --model must be two files, got {checkpoint} for both")
    resume_from = checkpoint if out_of_core.resume else None
    if resume_from is not None and not Path(resume_from).exists():
        note(f"there is no checkpoint {resume_from} yet: the fit starts from the beginning")
        resume_from = None
    with spoken_warnings():
        from majorant import LogisticRegression, __version__
        from majorant.callbacks import Checkpoint, ProgressLine

        callbacks: list[Any] = []
        if checkpoint is not None:
            every = {} if out_of_core.every is None else {"every": out_of_core.every}
            callbacks.append(Checkpoint(checkpoint, **every))
        if not out_of_core.in_batches and on_terminal(sys.stderr):
            callbacks.append(ProgressLine(transient=True))
        estimator = LogisticRegression(**estimator_settings, callbacks=callbacks)
        rows = out_of_core.chunk_rows
        if out_of_core.stream:
            done = fit_stream(source, wanted, estimator, listed(out_of_core.classes), rows or CHUNK_ROWS)
        elif out_of_core.in_batches:
            done = fit_batches(source, wanted, estimator, rows, out_of_core.scheduler, resume_from)
        else:
            done = fit_whole(source, wanted, estimator, test_size, seed, resume_from)
    facts = {"trained_on": Path(source.name).name, "rows": done.rows, "result": done.result, "version": __version__}
    estimator.save(path, notes={"schema": done.schema.to_json(), **facts})
    passes = (getattr(estimator, "trace_", None) or {"passes": ()})["passes"]
    facts = {
        "model": path,
        "rows": done.rows,
        "features": estimator.n_features_in_,
        "classes": estimator.classes_.tolist(),
        "result": done.result,
        "gap": estimator.gap_,
        "steps": int(estimator.n_iter_[0]),
        "passes": float(passes[-1]) if len(passes) else 1.0,  # one of a stream
        "rounds": getattr(estimator, "n_rounds_", None),
        "seconds": done.seconds,
        "test": done.test,
    }
    if as_json:
        show_json(facts)
        return
    show(
        f"trained on {done.rows} rows, {facts['features']} features, {len(estimator.classes_)} classes "
        f"in {done.seconds:.2f} s"
    )
    show(done.result)
    show(f"model written to {path}")
    if done.test is not None:
        from majorant.cli.predict import show_metrics

        show_metrics(done.test, "Held out")


# --- training ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fit:
    """How a model reads tables, and what to say about its training."""

    schema: Schema
    rows: int
    seconds: float
    result: str
    test: dict[str, Any] | None = None


def fit_whole(
    source: Tables,
    wanted: Wanted,
    estimator: LogisticRegression,
    share: float | None,
    seed: int,
    resume_from: str | None = None,
) -> Fit:
    """Train on all rows, or on all but a share that the model is then tested on."""
    from majorant.cli.predict import measure
    from majorant.cli.schema import read_split

    data = read_split(source, wanted, share, seed)
    schema, classes = data.schema, data.classes
    _check_class_weight(estimator, classes)
    X, y = schema.features(data.train), schema.labels(data.train, classes)
    started = time.perf_counter()
    estimator.fit(X, y, sample_weight=schema.weights(data.train), resume_from=resume_from)
    seconds = time.perf_counter() - started
    test = None
    if data.test is not None:
        unseen = Unseen(schema)
        unseen.add(data.test)
        unseen.tell(f"the rows of {source.name} to test on")
        test = measure(schema.labels(data.test, classes), estimator.predict_proba(schema.features(data.test)), classes)
    return Fit(schema, len(data.train), seconds, str(estimator.result_), test)


def fit_stream(source: Tables, wanted: Wanted, estimator: LogisticRegression, named: list[str], rows: int) -> Fit:
    """Train by ``partial_fit`` on chunks of so many rows.

    Classes, categories, means and scales come from a first pass; with the classes ``named``, from the first chunk.
    """
    from majorant.cli.schema import Schema
    from majorant.cli.tables import find_classes

    def complete_chunks() -> Iterator[Table]:
        return (table for table in map(wanted.complete, source.chunks(rows)) if len(table))

    started = time.perf_counter()
    if not named:
        schema, classes = Schema.learn(source, wanted)
    elif not source.named:
        raise Refusal(
            f"leave out --classes: the first pass over {source.name} is needed to count its features, and finds them"
        )
    else:
        classes = find_classes(named, wanted.target or "label")
        first = next(complete_chunks(), None)
        if first is None:
            raise Refusal(f"{source.name} has no rows to learn from: each of them lacks a value")
        schema, _ = Schema.learn(source, wanted, lambda: [first])
    _check_class_weight(estimator, classes)
    seen = chunks = 0
    unseen = Unseen(schema)
    with progress("streaming") as move:
        for table in complete_chunks():
            unseen.add(table)
            X, y = schema.features(table), schema.labels(table, classes)
            estimator.partial_fit(X, y, classes=classes, sample_weight=schema.weights(table))
            seen, chunks = seen + len(table), chunks + 1
            move(seen)
    unseen.tell(source.name)
    sentence = f"one pass over {seen} rows in {chunks} chunks; nothing certifies a stream"
    return Fit(schema, seen, time.perf_counter() - started, sentence)


def fit_batches(
    source: Tables,
    wanted: Wanted,
    estimator: LogisticRegression,
    rows: int | None = None,
    scheduler: str | None = None,
    resume_from: str | None = None,
) -> Fit:
    """Train on all rows, read pass by pass in chunks (of so many rows, if given), here or by workers of a scheduler.

    Classes, categories, means and scales come from a first pass, which copies what it reads: no file is parsed twice.
    """
    from majorant.callbacks import PassLine
    from majorant.cli.schema import EncodedPiece, EncodedRows, Schema, TableCopy

    started = time.perf_counter()
    copy = TableCopy() if scheduler is None else None
    if scheduler is not None:  # whose workers were started in other folders
        source = source.with_absolute_paths()
    line = PassLine()

    def first_pass() -> Iterator[Table]:
        line.begin("first pass")
        for part in source.chunks(rows):
            complete = wanted.complete(part)
            line.watch(len(complete))
            yield complete

    try:
        with connected(scheduler) as client:
            schema, classes = Schema.learn(source, wanted, first_pass, copy)
            _check_class_weight(estimator, classes)
            line.begin("fitting", max(line.rows, 1))
            piece = functools.partial(EncodedPiece, wanted=wanted, schema=schema, classes=classes, rows=rows)
            encoded = EncodedRows(source, piece, line.watch, copy)
            estimator.set_params(callbacks=[*(estimator.callbacks or ()), line])
            try:
                estimator.fit(encoded, executor=client, resume_from=resume_from)
            except ImportError as problem:
                if client is None:
                    raise
                raise Refusal(
                    f"a worker cannot read the files ({problem}): install 'majorant[cli]' of this version there"
                ) from None
    finally:
        line.end()
    return Fit(schema, line.total or 0, time.perf_counter() - started, str(estimator.result_))


def _check_class_weight(estimator: LogisticRegression, classes: Array) -> None:
    """Refuse weights of what is no class."""
    given = estimator.class_weight
    unknown = set(given) - set(classes.tolist()) if isinstance(given, dict) else set()
    if unknown:
        raise Refusal(f"--class-weight names no class of the data: {sorted(unknown)}; there are {classes.tolist()}")


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """Yield a client of the Dask scheduler at an address, None if there is none; ``local:4`` starts four workers."""
    if address is None:
        yield None
        return
    distributed = needed("distributed", "--scheduler", "dask")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # its failures are told by us
    if local := LOCAL.fullmatch(address):
        workers = os.cpu_count() or 1 if local[1] is None else int(local[1])
        if workers < 1:
            raise Refusal("--scheduler local:N needs at least one worker, got local:0")
        settings = dict(n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL)
        with (
            distributed.LocalCluster(**settings) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            yield client
        return
    try:
        client = distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError, TypeError) as problem:
        why = str(problem).splitlines()[0] if isinstance(problem, ValueError | TypeError) else "nobody answers"
        raise Refusal(
            f"there is no Dask scheduler at {address} ({why}); say --scheduler tcp://host:port, or local"
        ) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=PATIENCE)
        except (OSError, TimeoutError):
            raise Refusal(f"the Dask scheduler at {address} has no workers; start some with dask worker") from None
        yield client
