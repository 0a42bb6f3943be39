"""The data sets: for each what it is, the files that it is read from, with checksums, and how they are read.

A reader takes the paths of the files; it returns X with a constant last column, dense or sparse, and labels 0 … n−1.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from majorant.callbacks import Line
from majorant.core.checks import Array, one_of
from majorant.core.files import replacing

# Called with the name of a file, the bytes received and the bytes expected (0 if the publisher does not say).
Progress: TypeAlias = Callable[[str, int, int], None]


class MissingDataError(FileNotFoundError):
    """A data set is neither here nor to be had; the message says what to put where."""


@dataclass(frozen=True)
class DataFile:
    """A file of a data set.

    Parameters
    ----------
    path : str
        Its place in the layout.
    url : str
        The publisher's copy; empty if there is none of this form.
    sha256 : str
        Of the contents, unpacked if the publisher's copy is gzipped.
    origin : str
        For a file that was converted, where it comes from.
    """

    path: str
    url: str = ""
    sha256: str = ""
    origin: str = ""


def cache_folder() -> Path:
    """Return the cache of this user."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "majorant"


def find(file: DataFile) -> Path | None:
    """Return the path of a file that is in the folder of the user's, or in the cache."""
    named = os.environ.get("MAJORANT_DATA")
    folders = [*([Path(named)] if named else []), cache_folder()]
    return next((folder / file.path for folder in folders if (folder / file.path).exists()), None)


def fetch(file: DataFile, progress: Progress | None = None) -> Path:
    """Return the path of a file; it is downloaded, checked and written to the cache unless it is here."""
    local = find(file)
    if local is not None:
        return local
    if not file.url:
        raise MissingDataError(f"{file.path} is missing: {_where_to_put(file)}; {file.origin}")
    name, parts, count = Path(file.path).name, [], 0
    try:
        with urllib.request.urlopen(file.url, timeout=30.0) as response:
            expected = int(response.headers.get("Content-Length") or 0)
            while part := response.read(2**16):
                parts.append(part)
                count += len(part)
                (progress or progress_line)(name, count, expected)
    except (urllib.error.URLError, OSError) as problem:
        reason = getattr(problem, "reason", problem)
        raise MissingDataError(
            f"{file.path} is missing and {file.url} cannot be reached ({reason}): {_where_to_put(file)}"
        ) from None

    received = b"".join(parts)
    packed = received[:2] == b"\x1f\x8b"
    found = hashlib.sha256(gzip.decompress(received) if packed else received).hexdigest()
    if found != file.sha256:
        raise ValueError(
            f"{file.url} is not the file it was: its sha256 is {found}, expected {file.sha256}; nothing was kept. "
            f"If you trust another copy, {_where_to_put(file)}"
        )

    path = cache_folder() / file.path
    path.parent.mkdir(parents=True, exist_ok=True)
    contents = gzip.compress(received) if path.suffix == ".gz" and not packed else received
    with replacing(path) as temporary:
        temporary.write_bytes(contents)
    return path


def progress_line(name: str, received: int, expected: int) -> None:
    """Rewrite a line on the terminal; say nothing elsewhere."""
    if not sys.stderr.isatty():
        return
    share = f" of {expected / 1e6:.1f}" if expected else ""
    text, line = f"downloading {name}: {received / 1e6:.1f}{share} MB", Line(sys.stderr)
    if received == expected:
        line.finish(text)
    else:
        line.write(text)


def _where_to_put(file: DataFile) -> str:
    cache = cache_folder()
    shown = Path("~") / cache.relative_to(Path.home()) if cache.is_relative_to(Path.home()) else cache
    return f"put it at {file.path} in the folder that MAJORANT_DATA names, or in {shown}"


Read = Callable[..., tuple[Any, Array]]


def with_constant(X: Any, labels: Any) -> tuple[Any, Array]:
    """Return X with a last column of ones, and labels as 0 … n−1 in the order of their values; sparse stays sparse."""
    ones = np.ones((X.shape[0], 1))
    y = np.unique(np.asarray(labels).ravel(), return_inverse=True)[1].ravel()
    return sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones]), y


# --- a set that is generated --------------------------------------------------------------------------------------


def toy(seed: int = 0, quarter: int = 250, side: float = 700.0, exchanged: float = 0.15) -> tuple[Array, Array]:
    """Return two features and a constant column, and labels 0 and 1: badly scaled for SGD, and not separable.

    Four clusters of ``quarter`` rows stand on the corners of a square, ``side`` from its centre, mirror images of each
    other. A share ``exchanged`` of labels is on the wrong side.

    The paper shows its set only in a picture that is not in its source. It says that the set is "highly symmetric",
    "non-linearly separable", that gradients point "in almost random directions", that SGD is unstable until its gain is
    as small as 10⁻⁸, and that SGD and ASGD then end little better than a coin while LBFGS does not. This set was
    designed to do all of that, so that it is no evidence for what the paper says of SGD. It is away from the origin:
    all rows point nearly the same way, and only their labels differ. What tells the classes apart is the distance from
    the origin: it takes the constant column, whose curvature is millions of times smaller.
    """
    rng = np.random.default_rng(seed)
    corner = side + 0.45 * side * rng.normal(size=(quarter, 2))
    outside = (rng.random(quarter) >= exchanged).astype(int)
    X = np.concatenate([corner * signs for signs in ([1, 1], [-1, 1], [1, -1], [-1, -1])]) + np.array([0.0, 3.0 * side])
    y = np.concatenate([outside, outside, 1 - outside, 1 - outside])
    order = rng.permutation(4 * quarter)
    return np.column_stack([X, np.ones(4 * quarter)])[order], y[order]


# --- Mnist --------------------------------------------------------------------------------------------------------


def _idx(path: Path) -> Array:
    """Return the array of a gzipped IDX file, the format of Mnist; images as rows of pixels between 0 and 1."""
    raw = gzip.decompress(path.read_bytes())
    shape = [int.from_bytes(raw[4 + 4 * i : 8 + 4 * i], "big") for i in range(raw[3])]
    values = np.frombuffer(raw, np.uint8, offset=4 + 4 * raw[3]).reshape(shape)
    return values.reshape(len(values), -1) / 255.0 if len(shape) > 1 else values


def principal_components(images: Array, components: int) -> Array:
    """Return the rows along the directions of largest variance, which all rows together choose."""
    centred = images - images.mean(axis=0)
    return centred @ np.linalg.eigh(centred.T @ centred)[1][:, -components:]


def _mnist(images: Path, labels: Path, components: int | None = 50) -> tuple[Array, Array]:
    X = _idx(images)
    return with_constant(X if components is None else principal_components(X, components), _idx(labels))


def _mnist4v9(images: Path, labels: Path) -> tuple[Array, Array]:
    digits = _idx(labels)
    chosen = np.isin(digits, (4, 9))
    return with_constant(_idx(images)[chosen], digits[chosen])


# --- sparse sets --------------------------------------------------------------------------------------------------


def _svmlight(n_features: int, path: Path) -> tuple[Any, Array]:
    """Return X and labels of a svmlight file, plain, gzipped or bzip2."""
    from sklearn.datasets import load_svmlight_file

    return with_constant(*load_svmlight_file(str(path), n_features=n_features))


def _secstr(path: Path) -> tuple[Any, Array]:
    stored = np.load(path)
    symbols = stored["T"]  # fifteen positions, one of 21 symbols at each
    t, positions = symbols.shape
    columns = symbols.astype(np.int32) + 21 * np.arange(positions)
    rows = np.repeat(np.arange(t), positions)
    X = sp.csr_matrix((np.ones(columns.size), (rows, columns.ravel())), shape=(t, 21 * positions))
    return with_constant(X, stored["y"])


def _text(path: Path) -> tuple[Any, Array]:
    stored = np.load(path)
    parts = (stored["data"], stored["indices"].astype(np.int32), stored["indptr"])
    return with_constant(sp.csr_matrix(parts, shape=tuple(stored["shape"])), stored["y"])


# --- dense tables -------------------------------------------------------------------------------------------------


def _arrays(path: Path) -> tuple[Array, Array]:
    """Return X and labels that NumPy has written."""
    stored = np.load(path)
    return with_constant(stored["X"].astype(np.float64), stored["y"])


def _gisette(*paths: Path, n_features: int = 5000) -> tuple[Array, Array]:
    """Return the dense text format of the NIPS 2003 challenge: integers, a row a line; labels in files of their own."""
    parts, labels = [], []
    for data, of_data in zip(paths[::2], paths[1::2], strict=True):
        values = np.fromstring(data.read_text(), dtype=np.float64, sep=" ")
        labels.append(np.fromstring(of_data.read_text(), dtype=np.float64, sep=" "))
        if values.size != len(labels[-1]) * n_features:
            raise ValueError(
                f"{data} must hold {n_features} numbers for each of the {len(labels[-1])} labels of {of_data.name}, "
                f"got {values.size} numbers"
            )
        parts.append(values.reshape(-1, n_features))
    return with_constant(np.vstack(parts), np.concatenate(labels))


def _table(path: Path, *, label: int, first: int, last: int | None = None, header: int = 0) -> tuple[Array, Array]:
    """Return columns ``first`` … ``last`` of a table, by commas or else by spaces, and the column of labels.

    A missing value becomes the mean of its column; columns that are zero everywhere are left out.
    """
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        cells = [line.strip().split("," if "," in line else None) for line in file if line.strip()][header:]
    X = np.array([[np.nan if cell == "?" else float(cell) for cell in row[first:last]] for row in cells])
    X = np.where(np.isnan(X), np.nanmean(X, axis=0), X)
    return with_constant(X[:, X.any(axis=0)], [row[label] for row in cells])


# --- the table of all ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DataSet:
    """A data set: a summary, its files, and the function that reads their paths."""

    summary: str
    read: Read
    files: tuple[DataFile, ...] = ()


LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
# A public copy; the checksums are those of the official files.
MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
SSL_BOOK = "http://olivier.chapelle.cc/ssl-book/benchmarks.html"


def _published(folder: str, base: str, name: str, sha256: str) -> DataFile:
    """Return a file at a publisher's, which is kept in a folder, gzipped unless it is text or packed already."""
    place = name if Path(name).suffix in (".bz2", ".data", ".gz", ".labels") else f"{name}.gz"
    return DataFile(f"{folder}/{Path(place).name}", f"{base}/{name}", sha256)


def _converted(place: str, what: str) -> tuple[DataFile]:
    return (DataFile(place, origin=f"it holds {what}"),)


_mnist_file = partial(_published, "mnist", MNIST)
_libsvm_file = partial(_published, "libsvm", LIBSVM)
_gisette_file = partial(_published, "gisette", f"{UCI}/gisette/GISETTE")
MNIST_TEST = (
    _mnist_file("t10k-images-idx3-ubyte.gz", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    _mnist_file("t10k-labels-idx1-ubyte.gz", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
)
MNIST_TRAIN = (
    _mnist_file("train-images-idx3-ubyte.gz", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    _mnist_file("train-labels-idx1-ubyte.gz", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
)
GISETTE = (
    _gisette_file("gisette_train.data", "6d4c5e998afe67937b9e77a3334e03c85e545ebc65a6eb1333ffc14125cfc389"),
    _gisette_file("gisette_train.labels", "42bd681fe51b161f033df773df14a0116e492676555ab14616c1b72edc054075"),
    _gisette_file("gisette_valid.data", "5cea897956dd172a006132738254a27a8f61ecc1ceb6f5b20639c281d2942254"),
    _published(
        "gisette",
        f"{UCI}/gisette",
        "gisette_valid.labels",
        "a6b857a0448023f033c4dda2ef848714b4be2ae45ce598d088fb3efb406e08c5",
    ),
)


LETTER_CONVERTED = DataFile("uci/letter.npz")
LETTER = DataFile(
    "uci/letter-recognition.data",
    f"{UCI}/letter-recognition/letter-recognition.data",
    "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
)
DATA_SETS: dict[str, DataSet] = {
    "toy": DataSet("generated: mirrored clusters in two dimensions, not linearly separable", toy),
    "ecoli": DataSet(
        "protein localisation sites, 336 rows, 7 features, 8 classes; bundled",
        partial(_table, Path(str(files("majorant.datasets") / "ecoli.data")), label=-1, first=1, last=-1),
    ),
    "secstr": DataSet(
        "protein secondary structure, 83,679 rows, 315 binary features, 2 classes",
        _secstr,
        _converted("ssl_benchmark/secstr.npz", f"T and y of SSL,set=8,data.mat from {SSL_BOOK}"),
    ),
    "mnist": DataSet("the 10,000 official test images, 50 principal components, 10 classes", _mnist, MNIST_TEST),
    "mnist60k": DataSet(
        "the 60,000 training images, 784 pixels / 255, 10 classes", partial(_mnist, components=None), MNIST_TRAIN
    ),
    "mnist4v9": DataSet("Mnist's fours and nines, 11,791 training images, 784 pixels / 255", _mnist4v9, MNIST_TRAIN),
    "digit1": DataSet(
        "artificial digits, 1,500 rows, 241 features",
        _arrays,
        _converted("ssl_benchmark/digit1.npz", f"X and y of SSL,set=1,data.mat from {SSL_BOOK}"),
    ),
    "text": DataSet(
        "newsgroups, 1,500 rows, 11,960 features, sparse",
        _text,
        _converted(
            "ssl_benchmark/text.npz",
            f"data, indices, indptr, shape (X as CSR) and y of SSL,set=9,data.mat from {SSL_BOOK}",
        ),
    ),
    "gisette": DataSet("fours and nines with probes, 7,000 labelled rows, 5,000 features", _gisette, GISETTE),
    "a9a": DataSet(
        "Adult, 32,561 rows, 123 binary features, sparse",
        partial(_svmlight, 123),
        (_libsvm_file("binary/a9a", "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),),
    ),
    "mushrooms": DataSet(
        "8,124 rows, 112 binary features, sparse",
        partial(_svmlight, 112),
        (_libsvm_file("binary/mushrooms", "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538"),),
    ),
    "news20": DataSet(
        "20 newsgroups, 15,935 rows, 62,061 word counts, sparse, 20 classes",
        partial(_svmlight, 62_061),
        (_libsvm_file("multiclass/news20.bz2", "8c79851f6f5fdc5540a0d04a5ab728353c42d26b84e73f93bda301c06c15ffe9"),),
    ),
    "letter": DataSet(
        "letter recognition, 20,000 rows, 16 features, 26 classes",
        lambda path: _arrays(path) if path.suffix == ".npz" else _table(path, label=0, first=1),
        (LETTER,),
    ),
    "ionosphere": DataSet(
        "radar returns, 351 rows, 33 features",
        partial(_table, label=-1, first=0, last=-1),
        _converted("latent/ionosphere.data.gz", f"ionosphere.data of {UCI}/ionosphere, gzipped"),
    ),
    "bupa": DataSet(
        "liver disorders, 345 rows, 6 features, the donors' selector as class",
        partial(_table, label=-1, first=0, last=-1),
        _converted("latent/bupa.data.gz", f"bupa.data of {UCI}/liver-disorders, gzipped"),
    ),
    "hepatitis": DataSet(
        "155 patients, 19 features, missing ones the mean of the others",
        partial(_table, label=0, first=1),
        _converted("latent/hepatitis.data.gz", f"hepatitis.data of {UCI}/hepatitis, gzipped"),
    ),
    "wine": DataSet(
        "three cultivars, 178 rows, 13 features",
        partial(_table, label=0, first=1),
        _converted("latent/wine.data.gz", f"wine.data of {UCI}/wine, gzipped"),
    ),
    "srbct": DataSet(
        "four childhood tumours, 83 rows, 2,308 gene expressions",
        partial(_table, label=1, first=2, header=1),
        _converted(
            "latent/srbct.csv.gz", "the Khan data of ISLR: columns split, class, V1 to V2308 of log ratios, gzipped"
        ),
    ),
    "rcv1_small": DataSet(
        "RCV1 sample, 1,000 rows, 47,236 features, sparse",
        partial(_svmlight, 47_236),
        _converted("libsvm/rcv1_small.gz", "the 1,000 training documents of Vowpal Wabbit's RCV1 sample as svmlight"),
    ),
}
NAMES = tuple(DATA_SETS)


def load(name: str, *, progress: Progress | None = None) -> tuple[Any, Array]:
    """Return X (with a constant last column) and integer labels of a data set.

    Files are looked for in the folder that the environment variable ``MAJORANT_DATA`` names, then in the cache of
    the user (``$XDG_CACHE_HOME/majorant`` or ``~/.cache/majorant``), and else downloaded from their publisher.
    ``ecoli`` is bundled (Nakai & Horton, UCI Machine Learning Repository, CC BY 4.0); ``toy`` is generated.

    Parameters
    ----------
    name : str
        One of ``majorant.datasets.NAMES``; :func:`describe` says what each is.
    progress : callable, optional
        Called while downloading with a file's name, the bytes received and the bytes expected. By default a line
        on the terminal.

    Returns
    -------
    X : array or CSR matrix of shape (t, p)
    y : array of shape (t,)

    Examples
    --------
    >>> X, y = load("ecoli")
    >>> X.shape, int(y.max()) + 1
    ((336, 8), 8)
    """
    one_of("name", name, NAMES)
    chosen = DATA_SETS[name]
    return chosen.read(*(fetch(file, progress) for file in _files(chosen)))


def available(name: str) -> bool:
    """Return whether a data set can be loaded without a network.

    Parameters
    ----------
    name : str
        One of ``majorant.datasets.NAMES``.

    Returns
    -------
    bool

    Examples
    --------
    >>> available("ecoli")
    True
    """
    one_of("name", name, NAMES)
    return all(find(file) is not None for file in _files(DATA_SETS[name]))


def describe(name: str) -> str:
    """Return the summary of a data set, one line.

    Parameters
    ----------
    name : str
        One of ``majorant.datasets.NAMES``.

    Returns
    -------
    str

    Examples
    --------
    >>> describe("ecoli")
    'protein localisation sites, 336 rows, 7 features, 8 classes; bundled'
    """
    one_of("name", name, NAMES)
    return DATA_SETS[name].summary


def _files(chosen: DataSet) -> tuple[DataFile, ...]:
    # A converted copy of letter is read where there is one; the published text is what is downloaded.
    converted = chosen.files == (LETTER,) and find(LETTER_CONVERTED) is not None
    return (LETTER_CONVERTED,) if converted else chosen.files
