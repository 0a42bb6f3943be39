"""A copy of chunks on disk, read into memory that is used again."""

import numpy as np
import pytest
import scipy.sparse as sp

from majorant.sources.cache import ChunkCache


@pytest.fixture
def cache():
    made = ChunkCache()
    yield made
    made.close()


def test_chunks_are_read_as_they_were_written(cache):
    """Of any type and shape, none included, while others are in use."""
    rng = np.random.default_rng(0)
    chunks = [
        (rng.normal(size=(rng.integers(0, 50), 3)).astype(dtype), None, rng.integers(0, 9, rng.integers(1, 5)))
        for dtype in ("f4", "f8", "i2") * 5
    ]
    for chunk in chunks:
        cache.add(chunk)
    read = [cache[number] for number in range(len(chunks))]
    for wrote, found in zip(chunks, read, strict=True):
        assert [each is None for each in wrote] == [each is None for each in found]
        for a, b in zip(wrote, found, strict=True):
            if a is not None:
                np.testing.assert_array_equal(a, b)
                assert (a.dtype, a.shape) == (b.dtype, b.shape)


def test_rows_in_use_stay_as_they_are(cache):
    """Also if only a part of them is, and if they are sparse."""
    rng = np.random.default_rng(0)
    dense = [rng.normal(size=(40, 5)) for _ in range(3)]
    sparse = [sp.random_array((40, 30), density=0.3, format="csr", random_state=rng) for _ in range(3)]
    for X in dense:
        cache.add((X,))
    for X in sparse:
        cache.add((X.data, X.indices, X.indptr))
    part, rows = cache[0][0][3:7], sp.csr_array(tuple(cache[3]), shape=(40, 30))
    others = [cache[number] for _ in range(3) for number in range(6)]
    assert len(others) == 18
    np.testing.assert_array_equal(part, dense[0][3:7])
    np.testing.assert_array_equal(rows.toarray(), sparse[0].toarray())


def test_memory_is_that_of_a_few_chunks_however_many_sizes_there_are(cache):
    rng = np.random.default_rng(0)
    sizes = rng.integers(20_000, 100_000, size=60)
    for size in sizes:
        cache.add((np.zeros(size, dtype=np.uint8),))
    places = set()
    for _ in range(2):
        for number in range(len(sizes)):
            (array,) = cache[number]
            places.add(array.__array_interface__["data"][0])
            del array
    assert len(places) <= 4  # one for each power of two, and the next
