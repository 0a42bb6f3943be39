"""Data sets: where files are looked for, what is downloaded and checked, what is said when nothing is there."""

import functools
import gzip
import hashlib
import http.server
import io
import sys
import threading

import numpy as np
import pytest
import scipy.sparse as sp

from majorant import datasets
from majorant.datasets import registry
from majorant.datasets.registry import DataFile, MissingDataError
from tests import problems

SHAPES = {
    "toy": ((1000, 3), 2),
    "ecoli": ((336, 8), 8),
    "secstr": ((83_679, 316), 2),
    "mnist": ((10_000, 51), 10),
    "mnist4v9": ((11_791, 785), 2),
    "digit1": ((1500, 242), 2),
    "text": ((1500, 11_961), 2),
    "a9a": ((32_561, 124), 2),
    "mushrooms": ((8124, 113), 2),
    "news20": ((15_935, 62_062), 20),
    "letter": ((20_000, 17), 26),
    "rcv1_small": ((1000, 47_237), 2),
}


@pytest.fixture
def nothing_here(monkeypatch, tmp_path):
    """No folder of the user's, an empty cache."""
    monkeypatch.delenv("MAJORANT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize("name", SHAPES)
def test_sets_have_a_constant_column_and_class_numbers(name):
    for file in registry.DATA_SETS[name].files:
        problems.shared_data("uci/letter.npz" if name == "letter" else file.path)
    X, y = datasets.load(name)
    shape, classes = SHAPES[name]
    assert X.shape == shape
    assert sorted(set(y.tolist())) == list(range(classes))
    last = X[:, [-1]].toarray() if sp.issparse(X) else X[:, [-1]]
    assert (last == 1).all()


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="name must be one of 'toy', 'ecoli'"):
        datasets.load("iris")


def test_the_toy_set_is_its_own_mirror_image_and_not_separable():
    X, y = datasets.load("toy")
    rows = {(round(a, 6), round(b, 6), label) for a, b, label in zip(X[:, 0], X[:, 1], y, strict=True)}
    assert {(-a, b, label) for a, b, label in rows} == rows
    upside_down = {(a, round(4200.0 - b, 6), 1 - label) for a, b, label in rows}
    assert upside_down == rows
    again, _ = datasets.load("toy")
    np.testing.assert_array_equal(X, again)
    on_the_wrong_side = (X[:, 1] > 2100) != y
    assert 0.05 < on_the_wrong_side.mean() < 0.25


def test_the_folder_of_the_user_comes_before_the_cache(nothing_here, monkeypatch):
    file = DataFile("some/file.txt")
    cached = registry.cache_folder() / file.path
    cached.parent.mkdir(parents=True)
    cached.write_text("cache")
    assert registry.fetch(file).read_text() == "cache"
    own = nothing_here / "own" / file.path
    own.parent.mkdir(parents=True)
    own.write_text("own")
    monkeypatch.setenv("MAJORANT_DATA", str(nothing_here / "own"))
    assert registry.fetch(file).read_text() == "own"


@pytest.fixture
def publisher(nothing_here):
    """A web server on this machine, with one file; returns its address and the contents."""
    contents = b"1 2:3\n" * 20_000
    folder = nothing_here / "www"
    folder.mkdir()
    (folder / "plain").write_bytes(contents)
    (folder / "packed.gz").write_bytes(gzip.compress(contents))

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", contents
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("name", ["plain", "packed.gz"])
def test_downloads_are_checked_kept_and_reported(publisher, name):
    url, contents = publisher
    file = DataFile("libsvm/set.gz", f"{url}/{name}", hashlib.sha256(contents).hexdigest())
    told = []
    path = registry.fetch(file, lambda *news: told.append(news))
    assert path == registry.cache_folder() / "libsvm/set.gz"
    assert gzip.decompress(path.read_bytes()) == contents
    assert told[-1][0] == "set.gz"
    assert told[-1][1] == told[-1][2] > 0
    (again,) = {registry.fetch(DataFile(file.path, "http://127.0.0.1:9/gone", file.sha256))}  # now from the cache
    assert again == path


def test_a_wrong_checksum_keeps_nothing(publisher):
    url, _ = publisher
    with pytest.raises(ValueError, match="is not the file it was: its sha256 is"):
        registry.fetch(DataFile("set.txt", f"{url}/plain", "0" * 64))
    assert not registry.cache_folder().exists()


def test_files_may_come_from_a_disk(nothing_here):
    source = nothing_here / "source.txt"
    source.write_bytes(b"hello")
    file = DataFile("a/b.txt", source.as_uri(), hashlib.sha256(b"hello").hexdigest())
    assert registry.fetch(file).read_bytes() == b"hello"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/nobody", "file:///no/such/file"])
def test_without_a_network_one_sentence_says_what_to_put_where(nothing_here, url):
    with pytest.raises(
        MissingDataError, match=r"gisette/x\.data is missing and .* put it at gisette/x\.data in the"
    ) as e:
        registry.fetch(DataFile("gisette/x.data", url, "0" * 64))
    assert str(registry.cache_folder()) in str(e.value)


def test_converted_sets_say_where_they_come_from(nothing_here):
    with pytest.raises(MissingDataError, match=r"ssl_benchmark/text\.npz .* SSL,set=9,data\.mat from http"):
        datasets.load("text")
    assert not datasets.available("text")
    assert datasets.available("ecoli")


def test_every_pinned_file_has_a_checksum_or_an_origin():
    for name, chosen in registry.DATA_SETS.items():
        for file in chosen.files:
            assert len(file.sha256) == 64 if file.url else file.origin, name
        assert datasets.describe(name)


def test_gisette_is_read_as_published(nothing_here, monkeypatch):
    rng = np.random.default_rng(0)
    parts = []
    (nothing_here / "gisette").mkdir()
    for part, rows in (("train", 6), ("valid", 3)):
        X, y = rng.integers(0, 1000, size=(rows, 5000)), rng.choice([-1, 1], size=rows)
        # The published files end every line of data with a blank.
        lines = "".join(" ".join(map(str, row)) + " \n" for row in X)
        (nothing_here / f"gisette/gisette_{part}.data").write_text(lines)
        (nothing_here / f"gisette/gisette_{part}.labels").write_text("".join(f"{label}\n" for label in y))
        parts.append((X, y))
    monkeypatch.setenv("MAJORANT_DATA", str(nothing_here))
    X, y = datasets.load("gisette")
    assert X.shape == (9, 5001)
    np.testing.assert_array_equal(X[:, :-1], np.vstack([X for X, _ in parts]))
    np.testing.assert_array_equal(y, np.concatenate([y for _, y in parts]) > 0)
    (nothing_here / "gisette/gisette_valid.data").write_text("1 2 3\n")
    with pytest.raises(ValueError, match="5000 numbers for each of the 3 labels"):
        datasets.load("gisette")


def test_letter_is_read_from_the_published_text(nothing_here, monkeypatch):
    (nothing_here / "uci").mkdir()
    (nothing_here / "uci/letter-recognition.data").write_text("T,2,8\nA,5,12\nT,1,1\n")
    monkeypatch.setenv("MAJORANT_DATA", str(nothing_here))
    X, y = datasets.load("letter")
    np.testing.assert_array_equal(X, [[2, 8, 1], [5, 12, 1], [1, 1, 1]])
    np.testing.assert_array_equal(y, [1, 0, 1])


def test_principal_components_are_those_of_largest_variance():
    rng = np.random.default_rng(0)
    images = rng.normal(size=(200, 5)) * [5.0, 0.1, 3.0, 0.1, 0.1]
    found = registry.principal_components(images, components=2)
    assert np.var(found, axis=0).sum() == pytest.approx(np.linalg.eigvalsh(np.cov(images.T, ddof=0))[-2:].sum())


def test_a_terminal_shows_one_line(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    monkeypatch.setitem(sys.modules, "rich.console", None)
    for received in (1_000_000, 2_000_000):
        registry.progress_line("set.gz", received, 2_000_000)
    first, last = ("\r\x1b[2Kdownloading set.gz: " + size for size in ("1.0 of 2.0 MB", "2.0 of 2.0 MB\n"))
    assert screen.getvalue() == first + last
