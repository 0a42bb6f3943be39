"""Rows that need not fit in memory: files, and functions that yield them."""

from majorant.sources.base import Chunk, Chunks, Piece, Source
from majorant.sources.files import Npy, Parquet, Svmlight

__all__ = ["Chunk", "Chunks", "Npy", "Parquet", "Piece", "Source", "Svmlight"]
