"""The application: its commands, and what it does when one of them fails."""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from majorant.cli.balance import balance
from majorant.cli.choice import choice
from majorant.cli.compare import compare, reproduce, warm_up
from majorant.cli.crf import ALSO as CRF_ALSO
from majorant.cli.crf import COMMANDS as CRF_COMMANDS
from majorant.cli.crf import crf
from majorant.cli.fit import fit
from majorant.cli.options import Command, option
from majorant.cli.output import fail, on_terminal
from majorant.cli.predict import evaluate, info, predict
from majorant.cli.probe import probe
from majorant.cli.rank import rank

COMMANDS: dict[str, Callable[..., None]] = {
    "fit": fit,
    "predict": predict,
    "evaluate": evaluate,
    "choice": choice,
    "rank": rank,
    "balance": balance,
    "probe": probe,
    "compare": compare,
    "reproduce": reproduce,
    "info": info,
    "warm-up": warm_up,
}
# Exit code of a command that was interrupted: 128 and the number of the signal.
ABORTED = 128 + signal.SIGINT
# Sent by a system that shuts down, and by a terminal that closes; Windows has one of them only.
ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Ended(BaseException):
    """A signal asked the process to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.exit_code = 128 + number


class Application(TyperGroup):
    """A group of commands whose failures are one line on standard error.

    Exit codes: 0 for success, 1 for a failure at run time, 2 for wrong usage, 130 when interrupted, and 128 and its
    number when another signal ended it.
    """

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command and exit."""
        given = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in given
        # Accepted before and after the name of the command.
        arguments = [word for word in given if word != "--debug"] or ["--help"]
        try:
            with _unwinding():
                code = super().main(arguments, prog_name or "majorant", complete_var, standalone_mode=False, **extra)
            if code == ABORTED:  # typer catches the interrupt, and says nothing
                fail("interrupted")
        except (Exception, KeyboardInterrupt, Ended) as problem:
            if debug:
                raise
            code = _report(problem)
        sys.exit(code if isinstance(code, int) else 0)


@contextmanager
def _unwinding() -> Iterator[None]:
    """Let signals end the block as an exception does, so that no temporary file stays; ignored ones stay ignored."""

    def end(number: int, frame: object) -> NoReturn:
        raise Ended(number)

    taken = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def build() -> typer.Typer:
    """Return the application; its help has colours and boxes only on a terminal."""
    groups = []
    for start_of, commands, also, settings in (
        (start, COMMANDS, {}, {"cls": Application, "add_completion": True}),
        (crf, CRF_COMMANDS, CRF_ALSO, {"invoke_without_command": True, "add_completion": False}),
    ):
        group = typer.Typer(
            rich_markup_mode="rich" if on_terminal() else None, pretty_exceptions_enable=False, **settings
        )
        group.callback(help=_paragraphs(start_of))(start_of)
        for name, command in (*commands.items(), *also.items()):
            group.command(name, cls=Command, help=_paragraphs(command), hidden=name in also)(command)
        groups.append(group)
    groups[0].add_typer(groups[1], name="crf")
    return groups[0]


def _paragraphs(command: Callable[..., None]) -> str:
    """Return the docstring with one line for each paragraph, to be wrapped anew; examples stay as they are."""
    parts = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(part if part.startswith("\b") else part.replace("\n", " ") for part in parts)


def _show_version(asked: bool) -> None:
    """Print the version and exit, where the option is given; the group would ask for a command."""
    if asked:
        from majorant import __version__

        typer.echo(f"majorant {__version__}")
        raise typer.Exit


def start(
    version: Annotated[
        bool, option("Print the version and exit.", None, "--version", is_eager=True, callback=_show_version)
    ] = False,
    debug: Annotated[bool, option("Show the traceback of an error.", None, "--debug")] = False,
) -> None:
    """Train log-linear models without tuning: quadratic bounds, certified convergence.

    \b
    majorant fit flowers.csv --target species --model flowers.npz
    majorant predict flowers.npz new.csv --out species.csv
    majorant evaluate flowers.npz more.csv
    majorant choice trips.csv --group trip --choice chosen --features price hours
    majorant rank battles.csv --a model_a --b model_b --winner winner
    majorant balance sample.csv --targets margins.csv --out weights.csv
    majorant probe features.npy labels.npy --model head.safetensors
    majorant crf train train.txt --template chunking --test test.txt
    """


def _report(problem: BaseException) -> int:
    """Say in one line what went wrong; return the exit code."""
    if isinstance(problem, KeyboardInterrupt | typer.Abort):
        fail("interrupted")
        return ABORTED
    if isinstance(problem, Ended):
        fail(str(problem))
        return problem.exit_code
    if hasattr(problem, "format_message"):  # click's own, of wrong usage
        context = getattr(problem, "ctx", None)
        command = "majorant" if context is None else context.command_path
        fail(f"{problem.format_message()} ({command} --help shows how)")
        return int(getattr(problem, "exit_code", 2))
    if isinstance(problem, OSError):
        from majorant.core.files import NO_ROOM

        # Files are named by what writes them; what is left is what a shell leads elsewhere.
        name = problem.filename or ("standard output" if problem.errno in NO_ROOM else "")
        where = f"{name}: " if name else ""
        fail(f"{where}{problem.strerror or problem}")
    elif isinstance(problem, ValueError | MemoryError | ImportError):
        fail(str(problem) or type(problem).__name__)
    else:
        fail(f"{type(problem).__name__}: {problem} (this should not happen; --debug shows where)")
    return 1
