"""The table of data sets: a reader and the files it needs, with checksums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant.core.checks import Array, one_of
from majorant.datasets import readers, small
from majorant.datasets.download import DataFile, Progress, fetch, find
from majorant.datasets.toy import toy

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
# A public copy; the checksums are those of the official files.
MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
SSL_BOOK = "http://olivier.chapelle.cc/ssl-book/benchmarks.html"

Read = Callable[..., tuple[Any, Array]]


@dataclass(frozen=True)
class DataSet:
    """What a set is, the files it is read from, and the function that reads their paths."""

    summary: str
    read: Read
    files: tuple[DataFile, ...] = ()


def _mnist_file(name: str, sha256: str) -> DataFile:
    return DataFile(f"mnist/{name}.gz", f"{MNIST}/{name}.gz", sha256)


def _libsvm_file(name: str, sha256: str, folder: str = "binary") -> DataFile:
    place = name if name.endswith(".bz2") else f"{name}.gz"
    return DataFile(f"libsvm/{place}", f"{LIBSVM}/{folder}/{name}", sha256)


def _ssl_file(name: str, number: int, arrays: str) -> DataFile:
    origin = f"it holds {arrays} of SSL,set={number},data.mat from {SSL_BOOK}"
    return DataFile(f"ssl_benchmark/{name}.npz", origin=origin)


def _gisette_file(name: str, sha256: str, folder: str = "gisette/GISETTE") -> DataFile:
    return DataFile(f"gisette/{name}", f"{UCI}/{folder}/{name}", sha256)


MNIST_TEST = (
    _mnist_file("t10k-images-idx3-ubyte", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    _mnist_file("t10k-labels-idx1-ubyte", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
)
MNIST_TRAIN = (
    _mnist_file("train-images-idx3-ubyte", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    _mnist_file("train-labels-idx1-ubyte", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
)
GISETTE = (
    _gisette_file("gisette_train.data", "6d4c5e998afe67937b9e77a3334e03c85e545ebc65a6eb1333ffc14125cfc389"),
    _gisette_file("gisette_train.labels", "42bd681fe51b161f033df773df14a0116e492676555ab14616c1b72edc054075"),
    _gisette_file("gisette_valid.data", "5cea897956dd172a006132738254a27a8f61ecc1ceb6f5b20639c281d2942254"),
    _gisette_file(
        "gisette_valid.labels", "a6b857a0448023f033c4dda2ef848714b4be2ae45ce598d088fb3efb406e08c5", folder="gisette"
    ),
)


def _ecoli() -> tuple[Array, Array]:
    lines = files("majorant.datasets").joinpath("ecoli.data").read_text().splitlines()
    fields = [line.split() for line in lines]
    X = np.array([[float(x) for x in row[1:-1]] for row in fields])
    return readers.with_constant(X), readers.class_numbers([row[-1] for row in fields])


def _mnist(images: Path, labels: Path) -> tuple[Array, Array]:
    X = readers.principal_components(_pixels(images), components=50)
    return readers.with_constant(X), readers.idx(labels).astype(int)


def _mnist60k(images: Path, labels: Path) -> tuple[Array, Array]:
    return readers.with_constant(_pixels(images)), readers.idx(labels).astype(int)


def _mnist4v9(images: Path, labels: Path) -> tuple[Array, Array]:
    digits = readers.idx(labels)
    chosen = np.isin(digits, (4, 9))
    return readers.with_constant(_pixels(images)[chosen]), (digits[chosen] == 9).astype(int)


def _pixels(images: Path) -> Array:
    stack = readers.idx(images)
    return stack.reshape(len(stack), -1) / 255.0


def _digit1(path: Path) -> tuple[Array, Array]:
    stored = np.load(path)
    return readers.with_constant(stored["X"]), readers.class_numbers(stored["y"])


def _secstr(path: Path) -> tuple[Any, Array]:
    stored = np.load(path)
    symbols = stored["T"]  # fifteen positions, one of 21 symbols at each
    t, positions = symbols.shape
    columns = symbols.astype(np.int32) + 21 * np.arange(positions)
    rows = np.repeat(np.arange(t), positions)
    X = sp.csr_matrix((np.ones(columns.size), (rows, columns.ravel())), shape=(t, 21 * positions))
    return readers.with_constant(X), readers.class_numbers(stored["y"])


def _text(path: Path) -> tuple[Any, Array]:
    stored = np.load(path)
    parts = (stored["data"], stored["indices"].astype(np.int32), stored["indptr"])
    return readers.with_constant(sp.csr_matrix(parts, shape=tuple(stored["shape"]))), readers.class_numbers(stored["y"])


def _gisette(*paths: Path) -> tuple[Array, Array]:
    train, train_labels, valid, valid_labels = paths
    parts = [readers.dense_table(*pair, 5000) for pair in ((train, train_labels), (valid, valid_labels))]
    return np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts])


def _letter(path: Path) -> tuple[Array, Array]:
    if path.suffix == ".npz":
        stored = np.load(path)
        return readers.with_constant(stored["X"].astype(float)), stored["y"].astype(int)
    fields = [line.split(",") for line in path.read_text().splitlines()]
    X = np.array([row[1:] for row in fields], dtype=float)
    return readers.with_constant(X), readers.class_numbers([row[0] for row in fields])


def _svmlight(n_features: int) -> Read:
    return lambda path: readers.svmlight(path, n_features)


LETTER_CONVERTED = DataFile("uci/letter.npz")
LETTER = DataFile(
    "uci/letter-recognition.data",
    f"{UCI}/letter-recognition/letter-recognition.data",
    "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
)
RCV1_SMALL = DataFile(
    "libsvm/rcv1_small.gz", origin="it holds the 1,000 training documents of Vowpal Wabbit's RCV1 sample as svmlight"
)


def _small(summary: str, read: Read, name: str, origin: str) -> DataSet:
    return DataSet(summary, read, (DataFile(f"latent/{name}.gz", origin=f"it holds {origin}, gzipped"),))


DATA_SETS: dict[str, DataSet] = {
    "toy": DataSet("generated: mirrored clusters in two dimensions, not linearly separable", toy),
    "ecoli": DataSet("protein localisation sites, 336 rows, 7 features, 8 classes; bundled", _ecoli),
    "secstr": DataSet(
        "protein secondary structure, 83,679 rows, 315 binary features, 2 classes",
        _secstr,
        (_ssl_file("secstr", 8, "T and y"),),
    ),
    "mnist": DataSet("the 10,000 official test images, 50 principal components, 10 classes", _mnist, MNIST_TEST),
    "mnist60k": DataSet("the 60,000 training images, 784 pixels / 255, 10 classes", _mnist60k, MNIST_TRAIN),
    "mnist4v9": DataSet("Mnist's fours and nines, 11,791 training images, 784 pixels / 255", _mnist4v9, MNIST_TRAIN),
    "digit1": DataSet("artificial digits, 1,500 rows, 241 features", _digit1, (_ssl_file("digit1", 1, "X and y"),)),
    "text": DataSet(
        "newsgroups, 1,500 rows, 11,960 features, sparse",
        _text,
        (_ssl_file("text", 9, "data, indices, indptr, shape (X as CSR) and y"),),
    ),
    "gisette": DataSet("fours and nines with probes, 7,000 labelled rows, 5,000 features", _gisette, GISETTE),
    "a9a": DataSet(
        "Adult, 32,561 rows, 123 binary features, sparse",
        _svmlight(123),
        (_libsvm_file("a9a", "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),),
    ),
    "mushrooms": DataSet(
        "8,124 rows, 112 binary features, sparse",
        _svmlight(112),
        (_libsvm_file("mushrooms", "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538"),),
    ),
    "news20": DataSet(
        "20 newsgroups, 15,935 rows, 62,061 word counts, sparse, 20 classes",
        _svmlight(62_061),
        (
            _libsvm_file(
                "news20.bz2", "8c79851f6f5fdc5540a0d04a5ab728353c42d26b84e73f93bda301c06c15ffe9", folder="multiclass"
            ),
        ),
    ),
    "letter": DataSet("letter recognition, 20,000 rows, 16 features, 26 classes", _letter, (LETTER,)),
    "ionosphere": _small(
        "radar returns, 351 rows, 33 features",
        small.ionosphere,
        "ionosphere.data",
        f"ionosphere.data of {UCI}/ionosphere",
    ),
    "bupa": _small(
        "liver disorders, 345 rows, 6 features, the donors' selector as class",
        small.bupa,
        "bupa.data",
        f"bupa.data of {UCI}/liver-disorders",
    ),
    "hepatitis": _small(
        "155 patients, 19 features, missing ones the mean of the others",
        small.hepatitis,
        "hepatitis.data",
        f"hepatitis.data of {UCI}/hepatitis",
    ),
    "wine": _small("three cultivars, 178 rows, 13 features", small.wine, "wine.data", f"wine.data of {UCI}/wine"),
    "srbct": _small(
        "four childhood tumours, 83 rows, 2,308 gene expressions",
        small.srbct,
        "srbct.csv",
        "the Khan data of ISLR: columns split, class, V1 to V2308 of log ratios",
    ),
    "rcv1_small": DataSet("RCV1 sample, 1,000 rows, 47,236 features, sparse", _svmlight(47_236), (RCV1_SMALL,)),
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
    """Return what a data set is, in a line.

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
