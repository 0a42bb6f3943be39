"""``majorant crf``: train, tag and evaluate chains on CoNLL column files."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from majorant.cli.options import CHAIN_SOLVERS, READING, AsJson, Encoding, either, listed
from majorant.cli.output import check_writable, on_terminal, show, show_json, spoken_warnings
from majorant.cli.saved import EVALUATE, PREDICT, check_model_path

if TYPE_CHECKING:
    from majorant.cli.chains import Layout, Reading, Training

MODEL = "The model"
STREAMING = "Files larger than memory"

ColumnFiles: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="FILE", help="CoNLL column files, also packed; - is standard input.")
]
OneFile: TypeAlias = Annotated[
    str, typer.Argument(metavar="FILE", help="A CoNLL column file, also packed; - is standard input.")
]
Model: TypeAlias = Annotated[str, typer.Argument(metavar="MODEL", help="A model that majorant crf train has written.")]
ModelFile: TypeAlias = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="FILE", help="Where to write the model; FILE.crf.npz by default."),
]
Templates: TypeAlias = Annotated[
    str,
    typer.Option(
        "--template",
        metavar="NAME|FILE",
        help="window (each column of the two tokens on either side), chunking (words in column 0, parts of speech in "
        "column 1, as CRFsuite's example) or a template file of CRF++.",
        rich_help_panel=MODEL,
    ),
]
TestFile: TypeAlias = Annotated[
    str | None, typer.Option("--test", metavar="FILE", help="Another file, to measure the model on.")
]
Penalty: TypeAlias = Annotated[
    float, typer.Option("--c2", help="Penalty: c2 times the sum of squared weights.", rich_help_panel=MODEL)
]
SolverName: TypeAlias = Annotated[str, typer.Option(help=f"{either(CHAIN_SOLVERS)}.", rich_help_panel=MODEL)]
Tolerance: TypeAlias = Annotated[
    float, typer.Option(help="Relative suboptimality at which to stop.", rich_help_panel=MODEL)
]
Steps: TypeAlias = Annotated[int, typer.Option(help="Most steps.", min=0, rich_help_panel=MODEL)]
Jobs: TypeAlias = Annotated[
    int | None, typer.Option("--n-jobs", help="Threads; -1 is all processors.", rich_help_panel=MODEL)
]
MinFreq: TypeAlias = Annotated[
    int, typer.Option("--min-freq", min=0, help="Leave out features seen less often.", rich_help_panel=MODEL)
]
AllStates: TypeAlias = Annotated[
    bool, typer.Option("--all-states", help="Weigh every attribute with every label.", rich_help_panel=MODEL)
]
AllTransitions: TypeAlias = Annotated[
    bool, typer.Option("--all-transitions", help="Weigh every pair of labels, seen or not.", rich_help_panel=MODEL)
]
Seed: TypeAlias = Annotated[int, typer.Option(help="Order of the sentences.", rich_help_panel=MODEL)]
LabelColumn: TypeAlias = Annotated[
    int,
    typer.Option("--label-column", metavar="N", help="Where labels are: 0 is first, -1 last.", rich_help_panel=READING),
]
OtherLabelColumn: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--label-column", metavar="N", help="Where labels are, if not as in training.", rich_help_panel=READING
    ),
]
Separator: TypeAlias = Annotated[
    str, typer.Option(metavar="NAME", help="Between fields: auto, space or tab.", rich_help_panel=READING)
]
Skip: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        metavar="PREFIX",
        help="Lines that begin so are no tokens; -DOCSTART- by default, '# ' for CoNLL-U, '' for none.",
        rich_help_panel=READING,
    ),
]
Stream: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Learn from one chunk of sentences after the other, in one pass. A pass before it finds the labels.",
        rich_help_panel=STREAMING,
    ),
]
Classes: TypeAlias = Annotated[
    str | None,
    typer.Option(metavar="LABELS", help="All labels, as a,b,c: saves that pass.", rich_help_panel=STREAMING),
]
ChunkSentences: TypeAlias = Annotated[int, typer.Option(min=1, help="Sentences of a chunk.", rich_help_panel=STREAMING)]


def crf(ctx: typer.Context) -> None:
    """Label sequences by a linear-chain CRF: train, tag and evaluate on CoNLL column files.

    \b
    majorant crf train train.txt --template chunking --model chunks.npz --test test.txt
    majorant crf tag chunks.npz new.txt --out tagged.txt
    majorant crf eval chunks.npz test.txt
    """
    if ctx.invoked_subcommand is None:
        show(ctx.get_help())


def train(
    files: ColumnFiles,
    model: ModelFile = None,
    test: TestFile = None,
    as_json: AsJson = False,
    template: Templates = "window",
    c2: Penalty = 1.0,
    solver: SolverName = "auto",
    tol: Tolerance = 1e-3,
    max_iter: Steps = 10_000,
    min_freq: MinFreq = 0,
    all_states: AllStates = False,
    all_transitions: AllTransitions = False,
    n_jobs: Jobs = None,
    seed: Seed = 0,
    label_column: LabelColumn = -1,
    separator: Separator = "auto",
    skip: Skip = None,
    encoding: Encoding = "utf-8",
    stream: Stream = False,
    classes: Classes = None,
    chunk_sentences: ChunkSentences = 1000,
) -> None:
    """Train a linear-chain CRF on files of one token a line, with a blank line between sentences, and save it.

    The templates travel with the model, so that tagging needs no more than the model and a file.

    \b
    majorant crf train train.txt.gz --template chunking --test test.txt.gz
    majorant crf train part1.txt part2.txt --stream --classes B-NP,I-NP,O --model np.npz
    """
    from majorant.cli.chains import Layout, Reading

    path = model or f"{'stdin' if files[0] == '-' else Path(files[0]).name.split('.')[0]}.crf.npz"
    check_model_path(path, *files, *([test] if test else []))
    if classes is not None and not stream:
        raise typer.BadParameter("--classes goes with --stream; without it, the labels of the files are the classes")
    layout = Layout(template, label_column)
    reading = Reading().changed(separator, _prefixes(skip), encoding)
    settings: dict[str, Any] = dict(c2=c2, solver=solver, tol=tol, max_iter=max_iter, min_freq=min_freq)
    settings |= dict(all_possible_states=all_states, all_possible_transitions=all_transitions)
    settings |= dict(n_jobs=n_jobs, random_state=seed)
    with spoken_warnings():
        done = _train(reading, files, layout, settings, listed(classes), chunk_sentences * stream)
    done.tagger.save(path, done.facts)
    _report(done, path, _measured(done, test, reading), as_json)


def tag(
    model: Model,
    file: OneFile,
    out: Annotated[
        str, typer.Option("--out", "-o", metavar="FILE", help="May end in .gz, .bz2 or .xz; - is standard output.")
    ] = "-",
    marginals: Annotated[
        bool, typer.Option("--marginals", help="Also write the probability of the label at its token.")
    ] = False,
    separator: Separator = "auto",
    skip: Skip = None,
    encoding: Encoding = "utf-8",
) -> None:
    """Write the file again with the predicted labels as one more column.

    The columns that the templates read must stand where they stood in training; labels may be there or not. The file
    is read in chunks.

    \b
    majorant crf tag chunks.npz new.txt --out tagged.txt
    majorant crf tag chunks.npz - < new.txt
    """
    from majorant.cli.chains import Tagger

    check_writable(out, file, model)
    tagger = Tagger.load(model, PREDICT)
    source = tagger.reading.changed(separator, _prefixes(skip), encoding).file(file)
    sentences, tokens = tagger.write(source, out, marginals)
    if out != "-":
        show(f"{tokens} labels of {sentences} sentences written to {out}")


def evaluate(
    model: Model,
    file: OneFile,
    as_json: AsJson = False,
    label_column: OtherLabelColumn = None,
    separator: Separator = "auto",
    skip: Skip = None,
    encoding: Encoding = "utf-8",
) -> None:
    """Measure a model on a labelled file: token accuracy, and precision, recall and F1 of chunks as conlleval does.

    \b
    majorant crf eval chunks.npz test.txt
    """
    from majorant.cli.chains import Tagger, show_scores

    tagger = Tagger.load(model, EVALUATE)
    source = tagger.reading.changed(separator, _prefixes(skip), encoding).file(file)
    scores = tagger.measure(source, label_column)
    if as_json:
        show_json({"model": model, "data": file, **scores})
    else:
        show_scores(scores, file)


COMMANDS: dict[str, Callable[..., None]] = {"train": train, "tag": tag, "eval": evaluate}


def _prefixes(skip: list[str] | None) -> tuple[str, ...] | None:
    return None if skip is None else tuple(prefix for prefix in skip if prefix)


def _train(
    reading: Reading, files: list[str], layout: Layout, settings: dict[str, Any], named: list[str], chunk: int
) -> Training:
    """Train in chunks of so many sentences, or on all of them at once if that is 0."""
    import majorant
    from majorant.callbacks import ProgressLine
    from majorant.cli.chains import train_stream, train_whole

    # The line vanishes: how the fit ended is part of the report.
    callbacks = [ProgressLine(transient=True)] if on_terminal(sys.stderr) else []
    estimator = majorant.ChainCRF(**settings, callbacks=callbacks)
    if chunk:
        return train_stream(reading, files, layout, estimator, named, chunk)
    return train_whole(reading, files, layout, estimator)


def _measured(done: Training, test: str | None, reading: Reading) -> dict[str, Any] | None:
    return None if test is None else done.tagger.measure(reading.file(test))


def _report(done: Training, path: str, test: dict[str, Any] | None, as_json: bool) -> None:
    facts = done.facts
    if as_json:
        show_json({"model": path, **facts, "test": test})
        return
    show(
        f"trained on {facts['sentences']} sentences, {facts['tokens']} tokens, {len(facts['classes'])} labels "
        f"in {facts['seconds']:.2f} s"
    )
    show(facts["result"])
    show(f"model written to {path}")
    if test is not None:
        from majorant.cli.chains import show_scores

        show_scores(test, "Test")
