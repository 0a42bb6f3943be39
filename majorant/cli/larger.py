"""Options of ``majorant fit`` for files that are larger than memory, and which of them go together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

if TYPE_CHECKING:
    from majorant.cli.readers import Tables

LARGER = "Files larger than memory"
INTERRUPTED = "Long fits"
# Those that ask for sums over rows alone, which workers can find.
OF_SUMS = ("auto", "bbm", "newton", "lbfgs")
EVERY = 30.0
CHUNK = 20_000

Batches: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--batches",
        help="Find the same model as from memory, reading the files pass by pass, a chunk of rows at a time. A first "
        "pass finds classes, categories, means and scales. The rows are copied to the folder for temporary files "
        "(TMPDIR) if there is room, which is quicker to read. npz files are held, one at a time.",
        rich_help_panel=LARGER,
    ),
]
Scheduler: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="A Dask scheduler, such as tcp://host:8786, whose workers read the files and add up, one for each file or "
        "few row groups; local:4 starts four workers here. Implies --batches. Workers need the same paths.",
        rich_help_panel=LARGER,
    ),
]
Stream: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--stream",
        help="Learn from one chunk of rows after the other, once, never holding the files. A first pass over them "
        "finds classes, categories, means and scales.",
        rich_help_panel=LARGER,
    ),
]
Classes: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="LABELS",
        help="All labels, as a,b,c: saves the first pass of --stream; the first chunk then tells the rest.",
        rich_help_panel=LARGER,
    ),
]
ChunkRows: TypeAlias = Annotated[
    int | None,
    typer.Option(
        min=1,
        help=f"Rows of a chunk; {CHUNK} by default, or without --stream fewer if columns are many.",
        rich_help_panel=LARGER,
    ),
]
CheckpointFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="FILE",
        help="Write now and then how far the fit has come, so that --resume can go on from there.",
        rich_help_panel=INTERRUPTED,
    ),
]
Every: TypeAlias = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        min=0,
        help=f"How often; {EVERY:.0f} by default, 0 for every step.",
        rich_help_panel=INTERRUPTED,
    ),
]
Resume: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="Go on from the checkpoint, if there is one, to the model that an uninterrupted fit would have found.",
        rich_help_panel=INTERRUPTED,
    ),
]


@dataclass(frozen=True)
class Larger:
    """How rows that need not fit in memory are gone through, and how a fit that was killed goes on."""

    batches: Batches = False
    stream: Stream = False
    classes: Classes = None
    chunk_rows: ChunkRows = None
    scheduler: Scheduler = None
    checkpoint: CheckpointFile = None
    every: Every = None
    resume: Resume = False

    @property
    def in_batches(self) -> bool:
        """Whether the rows are read pass by pass."""
        return self.batches or self.scheduler is not None

    @property
    def seconds(self) -> float:
        """Between checkpoints."""
        return EVERY if self.every is None else self.every

    def check(self, solver: str, test_size: float | None) -> None:
        """Refuse what does not go together."""
        for wrong, sentence in self._rules(solver, test_size):
            if wrong:
                raise typer.BadParameter(sentence)

    def check_files(self, source: Tables) -> None:
        """Refuse what cannot be read again."""
        if self.in_batches and "-" in source.paths:
            raise typer.BadParameter("--batches reads the rows again and again: name a file, not standard input")

    def _rules(self, solver: str, test_size: float | None) -> list[tuple[bool, str]]:
        kept = self.checkpoint is not None
        apart = "keeps no rows for a test; use majorant evaluate on another file"
        alone = f"--scheduler goes with --solver {', '.join(OF_SUMS[:-1])} or {OF_SUMS[-1]}, got {solver}"
        return [
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
            (self.scheduler is not None and solver not in OF_SUMS, alone),
        ]
