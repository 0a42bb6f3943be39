"""How the command line looks: help, tables on a terminal, plain text elsewhere."""

import os
import re
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


COMMANDS = ["fit", "predict", "evaluate", "choice", "probe", "compare", "info", "crf train", "crf tag", "crf eval"]


def test_help_is_not_cut_and_names_no_types():
    for group in ("", "crf"):
        listed = call(*group.split(), "--help").partition("Commands:\n")[2]
        summaries = [line[12 if group == "" else 9 :] for line in listed.splitlines()]
        assert len(summaries) == (3 if group else 12)
        assert [line for line in summaries if "..." in line or len(line.rstrip()) > 49] == []
    for command in COMMANDS:
        assert re.findall(r"<(?:str|int|float|bool|list).*>", call(*command.split(), "--help")) == [], command


def test_a_mistyped_column_is_guessed_at(folder):
    data = write(folder / "t.csv", flowers())
    said = call("fit", data, "--target", "kinds", code=1)
    assert said.endswith("it has id, length, colour, width, weight, kind; did you mean 'kind'?\n")
    assert "did you mean" not in call("fit", data, "--target", "zebra", code=1)
    call("fit", data, "--target", "kind", "--drop", "id", "-m", "m.npz")
    assert "did you mean 'length'?" in call("predict", "m.npz", data, "--keep", "lenght", code=1)


def test_options_are_called_the_same_everywhere(folder):
    data = write(folder / "t.csv", flowers())
    for features in (["length,width"], ["length", "width"], ["length", "--features", "width"]):
        for order in ([data, "--features", *features], ["--features", *features, data]):
            call("fit", *order, "--target", "kind", "-m", "m.npz")
            assert list(majorant.LogisticRegression.load("m.npz").notes_["schema"]["encoding"]["parts"][1]) == [
                "name",
                "mean",
                "center",
                "scale",
            ]
    for command, flags in (("fit", "--model --test-size"), ("choice", "--model"), ("probe", "--model --test-size")):
        said = call(command, "--help")
        assert all(flag in said for flag in flags.split())
        assert "--share" not in said
        assert "--out" not in said
    for ours, theirs in (("tag", "predict"), ("eval", "evaluate"), ("train", "fit")):
        assert call("crf", theirs, "--help").splitlines()[2:] == call("crf", ours, "--help").splitlines()[2:]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_a_terminal(command):
    assert max(map(len, call(*command.split(), "--help").splitlines())) <= 80


def test_shells_complete_commands():
    assert "--install-completion" in call("--help")
    words = {"_MAJORANT_COMPLETE": "complete_bash", "COMP_WORDS": "majorant pro", "COMP_CWORD": "1"}
    assert shell(env={**os.environ, **words}).stdout.split() == ["probe"]


def test_wrong_usage_points_to_the_help_of_the_command():
    # The runner of these tests calls the program root.
    assert call("choice", "t.csv", code=2).endswith("Missing option '--group'. (root choice --help shows how)\n")
    assert "(root crf train --help shows how)" in call("crf", "train", code=2)
    assert "(root --help shows how)" in call("traim", code=2)


def test_a_target_is_asked_for_by_its_option(folder):
    said = call("fit", write(folder / "t.csv", flowers()), code=1)
    assert "choose the column of" in said
    assert "to predict with --target; it has id, length, colour" in said


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
    from majorant.chain import crf
    from majorant.cli import options
    from majorant.estimators import fitting

    assert (options.SOLVERS, options.CHAIN_SOLVERS) == (fitting.SOLVERS, crf.SOLVERS)
    for command, names in (("fit", fitting.SOLVERS), ("compare", fitting.SOLVERS), ("crf train", crf.SOLVERS)):
        said = " ".join(call(*command.split(), "--help").split()).replace("- ", "-")
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
