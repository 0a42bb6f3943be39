"""Where the sequences of a fit are: in memory, read pass by pass, or with the workers of an executor or a cluster."""

from __future__ import annotations

import pickle
import tempfile
import weakref
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

from majorant._checks import Array
from majorant.data.base import Data
from majorant.data.encoded import Size, evened
from majorant.data.sequences import Sequences
from majorant.data.universe import Universe
from majorant.data.vocabulary import Vocabulary
from majorant.estimators.chain_features import read_sequences, sequences, token_weights
from majorant.estimators.chain_survey import Encoding, Found, ManyStates, Wanted, survey_piece, together
from majorant.estimators.chain_weights import Observed
from majorant.estimators.placing import (
    LARGEST_SHARE,
    SHARES_PER_WORKER,
    held_on_dask,
    running_client,
    shared_out,
    workers_of,
)
from majorant.objective import Reducer
from majorant.objective.elsewhere import AtWorkers, Elsewhere
from majorant.sources import Chunks, Source
from majorant.sources.ahead import read_ahead
from majorant.sources.bag import DaskBag, is_bag
from majorant.sources.dask import is_dask
from majorant.sources.sequences import RECORD, Records, SequencePiece, StreamedSequences, block_numbers, none_of
from majorant.sources.shares import evenly
from majorant.sources.spool import Spool

# Bytes that a number of a record takes once its parameters are looked up, about.
BYTES = 24


class Prepared(NamedTuple):
    """Sequences ready to be fitted, what is known of them, and who adds up over them, if not the threads of a fit."""

    universe: Universe
    classes: Array
    vocabulary: Vocabulary
    data: Data
    tokens: int
    reducer: Reducer | None = None


def is_source(X: Any) -> bool:
    """Return whether something brings its own labels."""
    return isinstance(X, Source) or is_dask(X)


def source_of(X: Any) -> Chunks | DaskBag:
    """Return what sequences are read from."""
    if isinstance(X, Chunks):
        return X
    if is_bag(X):
        return DaskBag(X)
    raise TypeError(f"sequences are read from majorant.Chunks or a Dask bag, got {type(X).__name__}")


def in_memory(
    X: Any, y: Any, sample_weight: Any, lengths: Any, observed: Observed, states: ManyStates, executor: Any
) -> Prepared:
    """Read sequences that are here; what was read on the way is let go of. Workers get their shares of them."""
    if y is None:
        raise TypeError("fit needs y, the labels of each sequence: only a source (majorant.Chunks) brings its own")
    vocabulary = Vocabulary()
    tokens, labels, classes = read_sequences(X, y, lengths, vocabulary)
    sizes = len(classes), len(vocabulary)
    if not isinstance(X, list | tuple):  # who has a list has its names in memory anyway
        vocabulary.pack()
    universe = Universe.of(*observed(tokens, labels, *sizes), *sizes).with_states(states(classes))
    data = sequences(universe, tokens, labels, token_weights(sample_weight, tokens.starts)).compact()
    if executor is None:
        return Prepared(universe, classes, vocabulary, data, data.n_tokens)
    placed = shared_out(data, executor)
    return Prepared(universe, classes, vocabulary, placed.data, data.n_tokens, placed.reducer)


def from_source(X: Any, wanted: Wanted, executor: Any) -> Prepared:
    """Look at a source a first time, here or with workers, and return what there is to fit."""
    source = source_of(X)
    client = executor if hasattr(executor, "scheduler_info") else None
    if executor is None and isinstance(source, DaskBag):
        client = running_client()
    if client is not None:
        return on_dask(client, source, wanted)
    return here(source, wanted) if executor is None else with_executor(executor, source, wanted)


def here(source: Chunks | DaskBag, wanted: Wanted) -> Prepared:
    """Read everything once, and copy it as numbers where there is room; passes read these."""
    found, spool = Found(), Spool()
    for record in read_ahead(lambda: evened(found.read(source.pieces()), RECORD)):
        found.count(record)
        spool.add(record.arrays())
    encoding, sizes = found.encoding(wanted), found.sizes
    records = Records(spool, lambda: evened(encoding.read(source.pieces(), sizes), RECORD))
    data = StreamedSequences(records, encoding.universe, encoding.numbers, found.size, found.even)
    return Prepared(encoding.universe, encoding.classes, encoding.vocabulary, data, found.size.tokens)


def with_executor(executor: Executor, source: Chunks | DaskBag, wanted: Wanted) -> Prepared:
    """Let workers read everything once, and then hold their shares; what all need to know is in a file."""
    from majorant.objective.executors import ExecutorBlocks

    pieces = source.pieces()
    found = together(executor.map(survey_piece, pieces))
    encoding = found.encoding(wanted)
    folder = Path(tempfile.mkdtemp(prefix="majorant-"))
    kept = EncodingFile.write(folder / "encoding", encoding)
    each = evenly(_with_sequences(pieces, found), SHARES_PER_WORKER * workers_of(executor))
    blocks = ExecutorBlocks(executor, [ShareOfSequences(kept, *_apart(some)) for some in each])
    weakref.finalize(blocks, rmtree, folder, ignore_errors=True)
    return _elsewhere(encoding, blocks, found)


def on_dask(client: Any, source: Chunks | DaskBag, wanted: Wanted) -> Prepared:
    """Let the workers of a cluster do the same; what all need to know is one value that their shares depend on."""
    from dask import delayed

    from majorant.objective.dask import large_graphs

    pieces: Sequence[Any] = source.delayed_pieces() if isinstance(source, DaskBag) else source.pieces()
    found = together(client.gather(client.compute([delayed(survey_piece)(piece) for piece in pieces])))
    encoding = found.encoding(wanted)
    with large_graphs():
        known = client.compute(delayed(encoding, pure=False, traverse=False))

    def made(*pairs: tuple[Any, Size]) -> Any:
        some, sizes = _apart(pairs)
        return delayed(blocks_in_memory)(known, sizes, *some)

    blocks = held_on_dask(client, made, _with_sequences(pieces, found), BYTES * found.size.numbers)
    return _elsewhere(encoding, blocks, found)


def _with_sequences(pieces: Sequence[Any], found: Found) -> list[tuple[Any, Size]]:
    """Return the pieces that hold any sequences, each with its size: a share of the others would add up to nothing."""
    return [(piece, size) for piece, size in zip(pieces, found.sizes, strict=True) if size.sequences]


def _apart(pairs: Sequence[tuple[Any, Size]]) -> tuple[list[Any], list[Size]]:
    return [piece for piece, _ in pairs], [size for _, size in pairs]


def _elsewhere(encoding: Encoding, blocks: Any, found: Found) -> Prepared:
    data = Elsewhere(blocks, none_of(encoding.universe), found.size.sequences)
    tokens = found.size.tokens
    return Prepared(encoding.universe, encoding.classes, encoding.vocabulary, data, tokens, AtWorkers())


@dataclass(frozen=True)
class EncodingFile:
    """Vocabulary and parameters in a file, which every worker reads once."""

    path: Path

    @classmethod
    def write(cls, path: Path, encoding: Encoding) -> EncodingFile:
        """Write them. Nobody but this process and its workers knows the folder."""
        path.write_bytes(pickle.dumps(encoding, protocol=pickle.HIGHEST_PROTOCOL))
        return cls(path)

    def read(self) -> Encoding:
        """Return them."""
        return _from_file(self.path)


@lru_cache(maxsize=1)
def _from_file(path: Path) -> Encoding:
    found: Encoding = pickle.loads(path.read_bytes())
    return found


@dataclass(frozen=True, eq=False)
class ShareOfSequences:
    """Some pieces of a source: a worker makes blocks of them, in memory, or in a file of its own if they are large."""

    encoding: EncodingFile
    pieces: Sequence[SequencePiece]
    sizes: Sequence[Size]
    fits: bool = True  # what is in memory of them

    def __call__(self) -> Iterable[Sequences]:
        """Return the blocks."""
        encoding = self.encoding.read()
        if BYTES * _sum(self.sizes).numbers <= LARGEST_SHARE:
            return blocks_in_memory(encoding, self.sizes, *self.pieces)
        records = Records.of(partial(encoding.read, self.pieces, self.sizes))
        data = StreamedSequences(records, encoding.universe, encoding.numbers, _sum(self.sizes))
        return data.blocks(len(data))


def blocks_in_memory(encoding: Encoding, sizes: Sequence[Size], *pieces: SequencePiece) -> list[Sequences]:
    """Return the blocks of some pieces."""
    chunks = encoding.read(pieces, sizes)
    return [encoding(some) for some in evened(chunks, block_numbers(encoding.universe, _sum(sizes)))]


def _sum(sizes: Sequence[Size]) -> Size:
    return Size(*(sum(each) for each in zip(*sizes, strict=True)))
