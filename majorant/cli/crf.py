"""``majorant crf``: train, tag and evaluate chains on CoNLL column files."""

from __future__ import annotations

import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeAlias

import typer

import majorant
from majorant.cli.conll import (
    CHUNKING,
    DOCUMENT_START,
    ColumnFile,
    Sentence,
    TemplateSet,
    batches,
    read_templates,
    window,
    write_sentence,
)
from majorant.cli.files import Refusal, open_packing
from majorant.cli.model_file import check_model_path, refuse_other_kinds
from majorant.cli.options import CHAIN_SOLVERS, AsJson, Encoding, argument, either, expanded, listed, option, reading
from majorant.cli.output import (
    check_writable,
    on_terminal,
    progress,
    show,
    show_json,
    show_table,
    spoken_warnings,
    standard_output,
)
from majorant.core.files import replacing
from majorant.metrics import are_chunk_labels, chunk_scores

NAMED_TEMPLATES = ("window", "chunking")
# Sentences that are tagged, or learnt from in one pass, at a time.
BATCH = 1000

fitting = functools.partial(option, panel="The model")
streaming = functools.partial(option, panel="Files larger than memory")

OneFile: TypeAlias = Annotated[str, argument("A CoNLL column file, also packed; - is standard input.", "FILE")]
Model: TypeAlias = Annotated[str, argument("A model that majorant crf train has written.", "MODEL")]


@dataclass(frozen=True)
class ColumnReading:
    """How column files are read: options of the commands, in a parameter of this type."""

    separator: Annotated[str, reading("Between fields: auto, space or tab.", "NAME")] = "auto"
    skip: Annotated[
        list[str] | None,
        reading("Lines that begin so are no tokens; -DOCSTART- by default, '# ' for CoNLL-U, '' for none.", "PREFIX"),
    ] = None
    encoding: Encoding = "utf-8"

    def file(self, path: str, skip: Sequence[str] = (DOCUMENT_START,)) -> ColumnFile:
        """Return a file to be read so; what to skip may be said by a model."""
        prefixes = skip if self.skip is None else [prefix for prefix in self.skip if prefix]
        return ColumnFile(path, self.separator, tuple(prefixes), self.encoding)


@dataclass(frozen=True)
class Settings:
    """The model: options of the command, in a parameter of this type."""

    template: Annotated[
        str,
        fitting(
            "window (each column of the two tokens on either side), chunking (words in column 0, parts of speech in "
            "column 1, as CRFsuite's example) or a template file of CRF++.",
            "NAME|FILE",
        ),
    ] = "window"
    c2: Annotated[float, fitting("Penalty: c2 times the sum of squared weights.", "X", "--c2")] = 1.0
    c1: Annotated[float, fitting("Penalty: c1 times the sum of absolute weights.", "X", "--c1")] = 0.0
    solver: Annotated[str, fitting(f"{either(CHAIN_SOLVERS)}.", "NAME")] = "auto"
    tol: Annotated[float, fitting("Relative suboptimality at which to stop.", "X")] = 1e-3
    max_iter: Annotated[int, fitting("Most steps.", "N", min=0)] = 10_000
    min_freq: Annotated[int, fitting("Leave out features seen less often.", "N", min=0)] = 0
    all_states: Annotated[bool, fitting("Weigh every attribute with every label.", None, "--all-states")] = False
    all_transitions: Annotated[bool, fitting("Weigh every pair of labels, seen or not.", None, "--all-transitions")] = (
        False
    )
    n_jobs: Annotated[int | None, fitting("Threads; -1 is all processors.", "N")] = None
    seed: Annotated[int, fitting("Order of the sentences.", "N")] = 0
    label_column: Annotated[int, reading("Where labels are: 0 is first, -1 last.", "N")] = -1

    def check(self) -> None:
        """Refuse templates that there are not."""
        if self.template not in NAMED_TEMPLATES and not Path(self.template).is_file():
            known = ", ".join(NAMED_TEMPLATES)
            raise Refusal(f"--template must be {known} or a file, got {self.template}: there is no such file")

    def templates(self, sentence: Sentence) -> tuple[TemplateSet, int]:
        """Return the templates and the place of the labels for files whose sentences look like this one."""
        sentence.column(self.label_column)
        labels = self.label_column % len(sentence.columns)
        if self.template == "window":
            columns = [n for n in range(len(sentence.columns)) if n != labels]
            if not columns:
                raise Refusal(f"{sentence.origin} has one column only: labels, and nothing to tell them by")
            templates = window(columns)
        else:
            templates = CHUNKING if self.template == "chunking" else read_templates(self.template)
        if labels in templates.columns:
            raise Refusal(
                f"the templates read column {labels} of {sentence.origin}, but that holds the labels; "
                "--label-column says where these are"
            )
        return templates, labels


def crf(ctx: typer.Context) -> None:
    """Label sequences by a linear-chain CRF.

    Train, tag and evaluate on CoNLL column files.

    \b
    majorant crf train train.txt --template chunking --model chunks.npz
    majorant crf tag chunks.npz new.txt --out tagged.txt
    majorant crf eval chunks.npz test.txt
    """
    if ctx.invoked_subcommand is None:
        show(ctx.get_help())


@expanded
def train(
    files: Annotated[list[str], argument("CoNLL column files, also packed; - is standard input.", "FILE")],
    model: Annotated[
        str | None, option("The model to write; FILE.crf.npz by default.", "FILE", "--model", "-m")
    ] = None,
    test: Annotated[str | None, option("Another file, to measure the model on.", "FILE")] = None,
    as_json: AsJson = False,
    *,
    settings: Settings,
    reading: ColumnReading,
    stream: Annotated[
        bool,
        streaming(
            "Learn from one chunk of sentences after the other, in one pass. A pass before it finds the labels.",
            None,
            "--stream",
        ),
    ] = False,
    classes: Annotated[str | None, streaming("All labels, as a,b,c: saves that pass.", "LABELS")] = None,
    chunk_sentences: Annotated[int, streaming("Sentences of a chunk.", "N", min=1)] = BATCH,
) -> None:
    """Train a chain on files, and save it.

    A file has one token a line, and a blank line between sentences. The templates travel with the model, so that
    tagging needs no more than the model and a file.

    \b
    majorant crf train train.txt.gz --template chunking --test test.txt.gz
    majorant crf train part1.txt part2.txt --stream --classes B-NP,I-NP,O
    """
    path = model or f"{'stdin' if files[0] == '-' else Path(files[0]).name.split('.')[0]}.crf.npz"
    check_model_path(path, *files, *([test] if test else []))
    if classes is not None and not stream:
        raise typer.BadParameter("--classes goes with --stream; without it, the labels of the files are the classes")
    settings.check()
    sources = [reading.file(path) for path in files]
    with spoken_warnings():
        from majorant.callbacks import ProgressLine

        # The line vanishes: how the fit ended is part of the report.
        callbacks = [ProgressLine(transient=True)] if on_terminal(sys.stderr) else []
        estimator = majorant.ChainCRF(
            c1=settings.c1,
            c2=settings.c2,
            solver=settings.solver,
            tol=settings.tol,
            max_iter=settings.max_iter,
            min_freq=settings.min_freq,
            all_possible_states=settings.all_states,
            all_possible_transitions=settings.all_transitions,
            n_jobs=settings.n_jobs,
            random_state=settings.seed,
            callbacks=callbacks,
        )
        if stream:
            tagger, facts = train_stream(sources, settings, estimator, listed(classes), chunk_sentences)
        else:
            tagger, facts = train_whole(sources, settings, estimator)
    facts = {"trained_on": [Path(path).name for path in files], **facts}
    tagger.save(path, facts)
    tested = None if test is None else tagger.measure(reading.file(test))
    if as_json:
        show_json({"model": path, **facts, "test": tested})
        return
    show(
        f"trained on {facts['sentences']} sentences, {facts['tokens']} tokens, {len(facts['classes'])} labels "
        f"in {facts['seconds']:.2f} s"
    )
    show(facts["result"])
    show(f"model written to {path}")
    if tested is not None:
        show_scores(tested, "Test")


@expanded
def tag(
    model: Model,
    file: OneFile,
    out: Annotated[str, option("May end in .gz, .bz2 or .xz; - is standard output.", "FILE", "--out", "-o")] = "-",
    marginals: Annotated[bool, option("Also write the probability of each label.", None, "--marginals")] = False,
    *,
    reading: ColumnReading,
) -> None:
    """Write a file again with predicted labels.

    They are one more column. The columns that the templates read must stand where they stood in training; labels may be
    there or not. The file is read in chunks.

    \b
    majorant crf tag chunks.npz new.txt --out tagged.txt
    majorant crf tag chunks.npz - < new.txt
    """
    check_writable(out, file, model)
    tagger = Tagger.load(model, "predict")
    source = reading.file(file, tagger.skip)
    if out == "-":
        tagger.write(source, standard_output(), marginals)
        return
    with replacing(out) as temporary, open_packing(temporary) as written:
        sentences, tokens = tagger.write(source, written, marginals)
    show(f"{tokens} labels of {sentences} sentences written to {out}")


@expanded
def evaluate(
    model: Model,
    file: OneFile,
    as_json: AsJson = False,
    label_column: Annotated[int | None, reading("Where labels are, if not as in training.", "N")] = None,
    *,
    reading: ColumnReading,
) -> None:
    """Measure a model on a labelled file.

    Prints token accuracy, and precision, recall and F1 of chunks as conlleval does.

    \b
    majorant crf eval chunks.npz test.txt
    """
    tagger = Tagger.load(model, "evaluate")
    scores = tagger.measure(reading.file(file, tagger.skip), label_column)
    if as_json:
        show_json({"model": model, "data": file, **scores})
    else:
        show_scores(scores, file)


COMMANDS: dict[str, Callable[..., None]] = {"train": train, "tag": tag, "eval": evaluate}
# The same by the names that other commands have.
ALSO: dict[str, Callable[..., None]] = {"fit": train, "predict": tag, "evaluate": evaluate}


# --- training and tagging ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tagger:
    """A trained chain, its templates, and how files are read for it."""

    estimator: Any
    templates: TemplateSet
    label_column: int
    skip: tuple[str, ...]

    @classmethod
    def load(cls, path: str, purpose: str) -> Tagger:
        """Read a model that :meth:`save` wrote; one of another kind is refused with the command for that purpose."""
        refuse_other_kinds(path, ("ChainCRF",), purpose)
        estimator = majorant.ChainCRF.load(path)
        notes = estimator.notes_
        if not isinstance(notes, dict) or "templates" not in notes:
            raise Refusal(f"{path} holds a model without its templates: train it with majorant crf train")
        try:
            templates = TemplateSet.from_json(notes["templates"])
            return cls(estimator, templates, notes["label_column"], tuple(notes["skip"]))
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise Refusal(f"{path} holds templates, but they are damaged ({problem!s:.200})") from None

    def save(self, path: str, facts: dict[str, Any]) -> None:
        """Write the model, with the templates and what is known of its training."""
        notes = {"templates": self.templates.to_json(), "label_column": self.label_column, "skip": list(self.skip)}
        self.estimator.save(path, notes={**notes, "version": majorant.__version__, **facts})

    def measure(self, source: ColumnFile, label_column: int | None = None) -> dict[str, Any]:
        """Return the scores of the predicted labels of a file."""
        column = self.label_column if label_column is None else label_column
        true: list[list[str]] = []
        predicted: list[list[str]] = []
        for batch in batches(source, BATCH):
            true += [sentence.labels(column) for sentence in batch]
            predicted += self.estimator.predict(self.templates.extract(batch))
        scores = chunk_scores(true, predicted)
        facts = {"sentences": len(true), "tokens": scores.tokens, "accuracy": scores.accuracy}
        names = ("precision", "recall", "f1")
        if not are_chunk_labels(label for labels in true for label in labels):
            return {**facts, **dict.fromkeys((*names, "types"))}
        types = [
            {"type": kind, **{name: getattr(score, name) for name in names}, **asdict(score)}
            for kind, score in scores.types.items()
        ]
        return {**facts, **{name: getattr(scores.overall, name) for name in names}, "types": types}

    def write(self, source: ColumnFile, file: TextIO, marginals: bool) -> tuple[int, int]:
        """Write a file again with the predicted labels; return how many sentences and tokens these are."""
        sentences = tokens = 0
        for batch in batches(source.sentences(), BATCH):
            X = self.templates.extract(batch)
            added = [[[str(label) for label in labels]] for labels in self.estimator.predict(X)]
            for columns, chances in zip(added, self.estimator.predict_marginals(X) if marginals else (), strict=False):
                columns.append([f"{chance[label]:.6f}" for label, chance in zip(columns[0], chances, strict=True)])
            for sentence, columns in zip(batch, added, strict=True):
                write_sentence(file.write, sentence, *columns)
            sentences, tokens = sentences + len(batch), tokens + sum(map(len, batch))
        return sentences, tokens


def all_sentences(sources: Sequence[ColumnFile]) -> Iterator[Sentence]:
    """Yield the sentences of files, which must have equally many columns."""
    width = 0
    for source in sources:
        for sentence in source:
            width = width or len(sentence.columns)
            if len(sentence.columns) != width:
                raise Refusal(f"{source.path} has {len(sentence.columns)} columns, but {sources[0].path} has {width}")
            yield sentence


def train_whole(sources: Sequence[ColumnFile], settings: Settings, estimator: Any) -> tuple[Tagger, dict[str, Any]]:
    """Train on all sentences of files; return the tagger and what to say about it."""
    began = time.perf_counter()
    sentences = list(all_sentences(sources))
    templates, column = settings.templates(sentences[0])
    X, y = templates.extract(sentences), [sentence.labels(column) for sentence in sentences]
    read = time.perf_counter()
    estimator.fit(X, y)
    ending = {"result": str(estimator.result_), "gap": float(estimator.gap_), "steps": int(estimator.n_iter_)}
    facts = _facts(estimator, len(sentences), sum(map(len, sentences)), began, read)
    return Tagger(estimator, templates, column, sources[0].skip), facts | ending


def train_stream(
    sources: Sequence[ColumnFile], settings: Settings, estimator: Any, named: list[str], chunk: int
) -> tuple[Tagger, dict[str, Any]]:
    """Train by ``partial_fit`` on chunks of so many sentences; the labels, unless named, come from a first pass."""
    began = time.perf_counter()
    if not named and any(source.path == "-" for source in sources):
        raise Refusal("standard input can be read once only: name all labels by --classes, or leave out --stream")
    column = settings.label_column
    classes = sorted(named) or sorted(
        {label for sentence in all_sentences(sources) for label in sentence.labels(column)}
    )
    read = time.perf_counter()
    parts = batches(all_sentences(sources), chunk)
    first = next(parts)
    tagger = Tagger(estimator, *settings.templates(first[0]), sources[0].skip)
    sentences = tokens = chunks = 0
    with progress("streaming") as move:
        for batch in itertools.chain([first], parts):
            y = [sentence.labels(tagger.label_column) for sentence in batch]
            estimator.partial_fit(tagger.templates.extract(batch), y, classes=classes)
            sentences, tokens, chunks = sentences + len(batch), tokens + sum(map(len, batch)), chunks + 1
            move(sentences)
    result = f"one pass over {sentences} sentences in {chunks} chunks; nothing certifies a stream"
    facts = _facts(estimator, sentences, tokens, began, read)
    return tagger, {**facts, "result": result, "gap": None, "steps": chunks}


def _facts(estimator: Any, sentences: int, tokens: int, began: float, read: float) -> dict[str, Any]:
    return {
        "sentences": sentences,
        "tokens": tokens,
        "classes": [str(label) for label in estimator.classes_],
        "reading_seconds": read - began,
        "seconds": time.perf_counter() - read,
    }


def show_scores(scores: dict[str, Any], title: str) -> None:
    """Print the tables."""
    names = ["accuracy", *(name for name in ("precision", "recall", "f1") if scores[name] is not None)]
    spoken = {"accuracy": "token accuracy", "f1": "F1"}
    rows = [[spoken.get(name, name), f"{scores[name]:.4f}"] for name in names]
    show_table(f"{title}: {scores['sentences']} sentences, {scores['tokens']} tokens", ["measure", "value"], rows)
    if scores["f1"] is None:
        show("\nthe labels are not those of chunks (B-NP, I-NP, O and so on), so there is no F1")
        return
    measures, counts = ("precision", "recall", "f1"), ("true", "predicted", "correct")
    by_type = [
        [row["type"], *(f"{row[name]:.4f}" for name in measures), *(str(row[name]) for name in counts)]
        for row in scores["types"]
    ]
    show_table("Chunks by type", ["type", "precision", "recall", "F1", *counts], by_type)
