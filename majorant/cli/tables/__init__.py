"""Tables in files: CSV, TSV, Parquet, svmlight and npz, read whole or in chunks, and encoded as a model's features.

A :class:`Source` yields tables; a :class:`Schema` is learnt from them, travels with the model, and turns any later
table into features, labels and weights.
"""

from majorant.cli.tables.encoding import Columns
from majorant.cli.tables.files import Files, Tables, files_of
from majorant.cli.tables.indexed import Indices
from majorant.cli.tables.rows import EncodedRows, Reading
from majorant.cli.tables.schema import Schema, Wanted
from majorant.cli.tables.sources import FORMATS, Source
from majorant.cli.tables.table import CHUNK, Matrix, Table

__all__ = [
    "CHUNK",
    "FORMATS",
    "Columns",
    "EncodedRows",
    "Files",
    "Indices",
    "Matrix",
    "Reading",
    "Schema",
    "Source",
    "Table",
    "Tables",
    "Wanted",
    "files_of",
]
