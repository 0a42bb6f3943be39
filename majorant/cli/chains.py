"""Chains on column files: training on them, and a trained model with the templates that read for it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

import majorant
from majorant import __version__
from majorant._atomic import replacing
from majorant.cli.columns.crfpp import read_templates
from majorant.cli.columns.templates import CHUNKING, TemplateSet, window
from majorant.cli.conll import DOCUMENT_START, ColumnFile, Sentence, batches, write_sentence
from majorant.cli.output import progress, show, show_table, standard_output
from majorant.cli.packing import open_packing
from majorant.cli.saved import refuse_other_kinds
from majorant.metrics import ChunkScores, Score, are_chunk_labels, chunk_scores

NAMED_TEMPLATES = ("window", "chunking")
# Sentences tagged at a time.
BATCH = 1000


@dataclass(frozen=True)
class Reading:
    """How column files are read."""

    separator: str = "auto"
    skip: tuple[str, ...] = (DOCUMENT_START,)
    encoding: str = "utf-8"

    def changed(self, separator: str, skip: tuple[str, ...] | None, encoding: str) -> Reading:
        """Return it with another separator and encoding and, if given, other lines to skip."""
        return Reading(separator, self.skip if skip is None else skip, encoding)

    def file(self, path: str) -> ColumnFile:
        """Return a file to be read so."""
        return ColumnFile(path, self.separator, self.skip, self.encoding)

    def sentences(self, paths: Sequence[str]) -> Iterator[Sentence]:
        """Yield the sentences of some files, which must have equally many columns."""
        width = 0
        for path in paths:
            for sentence in self.file(path):
                width = width or len(sentence.columns)
                if len(sentence.columns) != width:
                    raise ValueError(f"{path} has {len(sentence.columns)} columns, but {paths[0]} has {width}")
                yield sentence


@dataclass(frozen=True)
class Layout:
    """What the columns are for, as the user says it: the templates by name or file, and where the labels are."""

    template: str
    label_column: int

    def __post_init__(self) -> None:
        if self.template not in NAMED_TEMPLATES and not Path(self.template).is_file():
            raise ValueError(
                f"--template must be {', '.join(NAMED_TEMPLATES)} or a file, got {self.template}: there is no such file"
            )

    def of(self, sentence: Sentence) -> tuple[TemplateSet, int]:
        """Return the templates and the place of the labels for files whose sentences look like this one."""
        sentence.column(self.label_column)
        labels = self.label_column % len(sentence.columns)
        templates = self._templates([n for n in range(len(sentence.columns)) if n != labels], sentence)
        if labels in templates.columns:
            raise ValueError(
                f"the templates read column {labels} of {sentence.origin}, but that holds the labels; "
                "--label-column says where these are"
            )
        return templates, labels

    def _templates(self, columns: list[int], sentence: Sentence) -> TemplateSet:
        if self.template == "window":
            if not columns:
                raise ValueError(f"{sentence.origin} has one column only: labels, and nothing to tell them by")
            return window(columns)
        if self.template == "chunking":
            return CHUNKING
        return read_templates(self.template)


@dataclass(frozen=True)
class Tagger:
    """A trained chain, its templates, and how files are read for it."""

    estimator: Any
    templates: TemplateSet
    label_column: int
    reading: Reading

    @classmethod
    def load(cls, path: str, purpose: int) -> Tagger:
        """Read a model that :meth:`save` wrote; one of another kind is refused with the command for that purpose."""
        refuse_other_kinds(path, ("ChainCRF",), purpose)
        estimator = majorant.ChainCRF.load(path)
        notes = estimator.notes_
        if not isinstance(notes, dict) or "templates" not in notes:
            raise ValueError(f"{path} holds a model without its templates: train it with majorant crf train")
        try:
            reading = Reading(skip=tuple(notes["skip"]))
            return cls(estimator, TemplateSet.from_json(notes["templates"]), notes["label_column"], reading)
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise ValueError(f"{path} holds templates, but they are damaged ({problem!s:.200})") from None

    def save(self, path: str, facts: dict[str, Any]) -> None:
        """Write the model, with the templates and what is known of its training."""
        reading = {"label_column": self.label_column, "skip": list(self.reading.skip)}
        notes = {"templates": self.templates.to_json(), **reading, "version": __version__, **facts}
        self.estimator.save(path, notes=notes)

    def measure(self, source: ColumnFile, label_column: int | None = None) -> dict[str, Any]:
        """Return how good the labels are that it gives to a file."""
        column = self.label_column if label_column is None else label_column
        true: list[list[str]] = []
        predicted: list[list[str]] = []
        for batch in batches(source, BATCH):
            true += [sentence.labels(column) for sentence in batch]
            predicted += self.estimator.predict(self.templates.extract(batch))
        return _as_facts(chunk_scores(true, predicted), true)

    def write(self, source: ColumnFile, out: str, marginals: bool) -> tuple[int, int]:
        """Write a file again with the predicted labels; return how many sentences and tokens these are."""
        if out == "-":
            return self._write(source, standard_output(), marginals)
        with replacing(out) as temporary, open_packing(temporary) as file:
            return self._write(source, file, marginals)

    def _write(self, source: ColumnFile, file: TextIO, marginals: bool) -> tuple[int, int]:
        sentences = tokens = 0
        for batch in batches(source.sentences(), BATCH):
            for sentence, columns in zip(batch, self._columns(batch, marginals), strict=True):
                write_sentence(file.write, sentence, *columns)
            sentences, tokens = sentences + len(batch), tokens + sum(map(len, batch))
        return sentences, tokens

    def _columns(self, batch: list[Sentence], marginals: bool) -> Iterator[list[list[str]]]:
        """Yield for each sentence the columns to add."""
        X = self.templates.extract(batch)
        predicted = [[str(label) for label in labels] for labels in self.estimator.predict(X)]
        if not marginals:
            yield from ([labels] for labels in predicted)
            return
        for labels, chances in zip(predicted, self.estimator.predict_marginals(X), strict=True):
            yield [labels, [f"{chance[label]:.6f}" for label, chance in zip(labels, chances, strict=True)]]


@dataclass(frozen=True)
class Training:
    """A model that was trained, and what to say about it."""

    tagger: Tagger
    facts: dict[str, Any]


def train_whole(reading: Reading, paths: Sequence[str], layout: Layout, estimator: Any) -> Training:
    """Train on all sentences of some files."""
    began = time.perf_counter()
    sentences = list(reading.sentences(paths))
    templates, column = layout.of(sentences[0])
    tokens = sum(map(len, sentences))
    X, y = templates.extract(sentences), [sentence.labels(column) for sentence in sentences]
    read = time.perf_counter()
    estimator.fit(X, y)
    facts = _facts(estimator, paths, len(sentences), tokens, read - began, time.perf_counter() - read)
    facts |= {"result": str(estimator.result_), "gap": float(estimator.gap_), "steps": int(estimator.n_iter_)}
    return Training(Tagger(estimator, templates, column, reading), facts)


def train_stream(
    reading: Reading, paths: Sequence[str], layout: Layout, estimator: Any, named: list[str], chunk: int
) -> Training:
    """Train by ``partial_fit`` on chunks of so many sentences; the labels, unless named, come from a first pass."""
    began = time.perf_counter()
    classes = sorted(named) or _find_labels(reading, paths, layout)
    read = time.perf_counter()
    parts = batches(reading.sentences(paths), chunk)
    first = next(parts)
    tagger = Tagger(estimator, *layout.of(first[0]), reading)
    sentences = tokens = chunks = 0
    with progress("streaming") as move:
        for batch in itertools.chain([first], parts):
            y = [sentence.labels(tagger.label_column) for sentence in batch]
            estimator.partial_fit(tagger.templates.extract(batch), y, classes=classes)
            sentences, tokens, chunks = sentences + len(batch), tokens + sum(map(len, batch)), chunks + 1
            move(sentences)
    facts = _facts(estimator, paths, sentences, tokens, read - began, time.perf_counter() - read)
    result = f"one pass over {sentences} sentences in {chunks} chunks; nothing certifies a stream"
    return Training(tagger, {**facts, "result": result, "gap": None, "steps": chunks})


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


def _find_labels(reading: Reading, paths: Sequence[str], layout: Layout) -> list[str]:
    if "-" in paths:
        raise ValueError("standard input can be read once only: name all labels by --classes, or leave out --stream")
    return sorted({label for each in reading.sentences(paths) for label in each.labels(layout.label_column)})


def _facts(
    estimator: Any, paths: Sequence[str], sentences: int, tokens: int, reading: float, seconds: float
) -> dict[str, Any]:
    return {
        "trained_on": [Path(path).name for path in paths],
        "sentences": sentences,
        "tokens": tokens,
        "classes": [str(label) for label in estimator.classes_],
        "reading_seconds": reading,
        "seconds": seconds,
    }


def _as_facts(scores: ChunkScores, true: list[list[str]]) -> dict[str, Any]:
    facts = {"sentences": len(true), "tokens": scores.tokens, "accuracy": scores.accuracy}
    if not are_chunk_labels(label for labels in true for label in labels):
        return {**facts, **dict.fromkeys(("precision", "recall", "f1", "types"))}
    types = [{"type": kind, **_measures(score), **asdict(score)} for kind, score in scores.types.items()]
    return {**facts, **_measures(scores.overall), "types": types}


def _measures(score: Score) -> dict[str, float]:
    return {"precision": score.precision, "recall": score.recall, "f1": score.f1}
