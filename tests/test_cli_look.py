"""How the command line looks: help, tables on a terminal, plain text elsewhere."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("typer")

import majorant
from majorant.cli import output
from tests.commands import CONTROL, call, flowers, shell, shell_of_several, write


@pytest.mark.parametrize("command", ["", "fit", "predict", "evaluate", "choice", "probe", "compare", "info"])
def test_help_is_plain_when_piped(command):
    said = call(*command.split(), "--help")
    assert "majorant " + (command or "fit") in said
    assert not CONTROL.search(said)


def test_piped_output_is_plain(folder):
    write(folder / "t.csv", flowers())
    fit = "fit t.csv --target kind --drop id --test-size 0.2 -m m.npz"
    shown, said = shell_of_several(fit, "evaluate m.npz t.csv", "info m.npz")
    assert "m.npz" in shown
    assert not CONTROL.search(shown)
    assert said == 3 * [(0, "")]


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_gets_tables(folder):
    import pty

    data = write(folder / "t.csv", flowers())
    call("fit", data, "--target", "kind", "--drop", "id", "-m", "m.npz")
    leader, follower = pty.openpty()
    command = [sys.executable, "-m", "majorant", "evaluate", "m.npz", str(data)]
    process = subprocess.Popen(command, stdout=follower, stderr=follower, env={**os.environ, "TERM": "xterm"})
    os.close(follower)
    shown = b""
    try:
        while part := os.read(leader, 2**16):
            shown += part
    except OSError:  # how Linux says that the other side has closed
        pass
    os.close(leader)
    assert process.wait(60) == 0
    assert "┏━━━" in shown.decode()
    assert "rose" in shown.decode()


def test_help_lists_the_solvers_there_are():
    from majorant.cli import options
    from majorant.estimators import chain_crf, named

    assert (options.SOLVERS, options.CHAIN_SOLVERS) == (named.SOLVERS, chain_crf.SOLVERS)
    for command, names in (("fit", named.SOLVERS), ("compare", named.SOLVERS), ("crf train", chain_crf.SOLVERS)):
        said = " ".join(call(*command.split(), "--help").split())
        assert ", ".join(names[:-1]) in said


def test_commands_that_read_tables_share_their_options():
    shared = ["--format", "--delimiter", "--no-header", "--decimal", "--encoding", "--comment", "--missing"]
    for command, more in (("fit", ["--drop"]), ("compare", ["--drop"]), ("predict", []), ("evaluate", [])):
        said = call(command, "--help")
        assert all(option in said for option in (*shared, *more))


def test_a_bar_moves_on_a_terminal_and_nothing_elsewhere(monkeypatch, capsys):
    with output.progress("one") as move:
        move(1, 2, "two")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(output, "on_terminal", lambda stream: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    with output.progress("one", stays=True) as move:
        move(1, 2, "[two]")
    shown = capsys.readouterr().err
    assert "[two]" in shown
    assert "1/2" in shown


def test_version():
    assert shell("--version").stdout == f"majorant {majorant.__version__}\n"
    assert call() == call("--help")


def test_help_is_quick_since_it_loads_nothing():
    code = (
        "import sys; sys.argv = ['majorant', '--help']\n"
        "from majorant.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.stderr.write(str(sorted({'scipy', 'sklearn', 'numba', 'matplotlib', 'pyarrow'} & set(sys.modules))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == "[]"


@pytest.mark.parametrize("module", ["typer", "rich", "pyarrow"])
def test_without_a_package_one_sentence(module):
    code = f"import sys; sys.modules['{module}'] = None\nfrom majorant.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert (
        done.stderr == "majorant: error: the command line needs typer, rich and pyarrow: pip install 'majorant[cli]'\n"
    )
