"""The table of data sets: a reader and the files it needs, with checksums."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from majorant.core.checks import Array, one_of
from majorant.datasets import readers
from majorant.datasets.download import DataFile, Progress, fetch, find

LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets"
UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
# A public copy; the checksums are those of the official files.
MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
SSL_BOOK = "http://olivier.chapelle.cc/ssl-book/benchmarks.html"


@dataclass(frozen=True)
class DataSet:
    """A data set: its summary, the function that reads it, and the files that this takes.

    Parameters
    ----------
    converted : DataFile, optional
        Another form of the files, an archive that is read in their place where there is one.
    """

    summary: str
    read: Callable[..., tuple[Any, Any]]
    files: tuple[DataFile, ...] = ()
    converted: DataFile | None = None


def _published(folder: str, address: str, checksums: dict[str, str]) -> tuple[DataFile, ...]:
    return tuple(DataFile(f"{folder}/{name}", f"{address}/{name}", sha256) for name, sha256 in checksums.items())


def _described(path: str, origin: str) -> tuple[DataFile]:
    return (DataFile(path, origin=f"it holds {origin}"),)


MNIST_TRAIN = _published(
    "mnist",
    MNIST,
    {
        "train-images-idx3-ubyte.gz": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte.gz": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    },
)
MNIST_TEST = _published(
    "mnist",
    MNIST,
    {
        "t10k-images-idx3-ubyte.gz": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte.gz": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
)
GISETTE = _published(
    "gisette",
    f"{UCI}/gisette/GISETTE",
    {
        "gisette_train.data": "6d4c5e998afe67937b9e77a3334e03c85e545ebc65a6eb1333ffc14125cfc389",
        "gisette_train.labels": "42bd681fe51b161f033df773df14a0116e492676555ab14616c1b72edc054075",
        "gisette_valid.data": "5cea897956dd172a006132738254a27a8f61ecc1ceb6f5b20639c281d2942254",
    },
) + _published(
    "gisette",
    f"{UCI}/gisette",
    {"gisette_valid.labels": "a6b857a0448023f033c4dda2ef848714b4be2ae45ce598d088fb3efb406e08c5"},
)
LETTER = _published(
    "uci",
    f"{UCI}/letter-recognition",
    {"letter-recognition.data": "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2"},
)
# The text files of LIBSVM are kept gzipped.
A9A, MUSHROOMS, NEWS20 = (
    (DataFile(f"libsvm/{place}", f"{LIBSVM}/{folder}/{name}", sha256),)
    for place, folder, name, sha256 in (
        ("a9a.gz", "binary", "a9a", "f5d5ffd8d865ff41328e7ee043e4b020816914ff6843ff15b98905ddbedce906"),
        ("mushrooms.gz", "binary", "mushrooms", "f39a4eb628dc61a7d43760815b061c9e497aa728ce1ad8bde57a09ef6043b538"),
        ("news20.bz2", "multiclass", "news20.bz2", "8c79851f6f5fdc5540a0d04a5ab728353c42d26b84e73f93bda301c06c15ffe9"),
    )
)
ECOLI = partial(readers.table, Path(__file__).with_name("ecoli.data"), label=-1, features=slice(1, -1), separator=None)
LAST = partial(readers.table, label=-1, features=slice(-1))  # the label is in the last column
FIRST = partial(readers.table, label=0, features=slice(1, None))

DATA_SETS: dict[str, DataSet] = {
    "toy": DataSet("generated: mirrored clusters in two dimensions, not linearly separable", readers.toy),
    "ecoli": DataSet("protein localisation sites, 336 rows, 7 features, 8 classes; bundled", ECOLI),
    "secstr": DataSet(
        "protein secondary structure, 83,679 rows, 315 binary features, 2 classes",
        readers.npz,
        _described("ssl_benchmark/secstr.npz", f"T and y of SSL,set=8,data.mat from {SSL_BOOK}"),
    ),
    "mnist": DataSet(
        "the 10,000 official test images, 50 principal components, 10 classes",
        partial(readers.mnist, components=50),
        MNIST_TEST,
    ),
    "mnist60k": DataSet("the 60,000 training images, 784 pixels / 255, 10 classes", readers.mnist, MNIST_TRAIN),
    "mnist4v9": DataSet(
        "Mnist's fours and nines, 11,791 training images, 784 pixels / 255",
        partial(readers.mnist, digits=(4, 9)),
        MNIST_TRAIN,
    ),
    "digit1": DataSet(
        "artificial digits, 1,500 rows, 241 features",
        readers.npz,
        _described("ssl_benchmark/digit1.npz", f"X and y of SSL,set=1,data.mat from {SSL_BOOK}"),
    ),
    "text": DataSet(
        "newsgroups, 1,500 rows, 11,960 features, sparse",
        readers.npz,
        _described(
            "ssl_benchmark/text.npz",
            f"data, indices, indptr, shape (X as CSR) and y of SSL,set=9,data.mat from {SSL_BOOK}",
        ),
    ),
    "gisette": DataSet("fours and nines with probes, 7,000 labelled rows, 5,000 features", readers.gisette, GISETTE),
    "a9a": DataSet("Adult, 32,561 rows, 123 binary features, sparse", partial(readers.svmlight, n_features=123), A9A),
    "mushrooms": DataSet(
        "8,124 rows, 112 binary features, sparse", partial(readers.svmlight, n_features=112), MUSHROOMS
    ),
    "news20": DataSet(
        "20 newsgroups, 15,935 rows, 62,061 word counts, sparse, 20 classes",
        partial(readers.svmlight, n_features=62_061),
        NEWS20,
    ),
    "letter": DataSet(
        "letter recognition, 20,000 rows, 16 features, 26 classes", FIRST, LETTER, DataFile("uci/letter.npz")
    ),
    "ionosphere": DataSet(
        "radar returns, 351 rows, 33 features",
        LAST,
        _described("latent/ionosphere.data.gz", f"ionosphere.data of {UCI}/ionosphere, gzipped"),
    ),
    "bupa": DataSet(
        "liver disorders, 345 rows, 6 features, the donors' selector as class",
        LAST,
        _described("latent/bupa.data.gz", f"bupa.data of {UCI}/liver-disorders, gzipped"),
    ),
    "hepatitis": DataSet(
        "155 patients, 19 features, missing ones the mean of the others",
        FIRST,
        _described("latent/hepatitis.data.gz", f"hepatitis.data of {UCI}/hepatitis, gzipped"),
    ),
    "wine": DataSet(
        "three cultivars, 178 rows, 13 features",
        FIRST,
        _described("latent/wine.data.gz", f"wine.data of {UCI}/wine, gzipped"),
    ),
    "srbct": DataSet(
        "four childhood tumours, 83 rows, 2,308 gene expressions",
        partial(readers.table, label=1, features=slice(2, None), header=True),
        _described(
            "latent/srbct.csv.gz",
            "the Khan data of ISLR: columns split, class, V1 to V2308 of log ratios, gzipped",
        ),
    ),
    "rcv1_small": DataSet(
        "RCV1 sample, 1,000 rows, 47,236 features, sparse",
        partial(readers.svmlight, n_features=47_236),
        _described("libsvm/rcv1_small.gz", "the 1,000 training documents of Vowpal Wabbit's RCV1 sample as svmlight"),
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
    read, files = _reader(name)
    X, labels = read(*(fetch(file, progress) for file in files))
    ones = np.ones((X.shape[0], 1))
    X = sp.hstack([X, ones], format="csr") if sp.issparse(X) else np.hstack([X, ones])
    return X, np.unique(np.ravel(labels), return_inverse=True)[1].ravel()


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
    return all(find(file) is not None for file in _reader(name)[1])


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


def _reader(name: str) -> tuple[Callable[..., tuple[Any, Any]], tuple[DataFile, ...]]:
    """Return the function that reads a data set, and the files that it takes."""
    chosen = DATA_SETS[one_of("name", name, NAMES)]
    if chosen.converted is not None and find(chosen.converted) is not None:
        return readers.npz, (chosen.converted,)
    return chosen.read, chosen.files
