"""Tables in files: CSV, TSV, Parquet, svmlight and npz, read whole or in chunks, and encoded as a model's features.

A :class:`Source` yields tables; a :class:`Schema` is learnt from them, travels with the model, and turns any later
table into features, labels and weights. Sentences in columns are apart: ``conll`` reads them, ``templates`` and
``crfpp`` say what their attributes are.
"""

from majorant.files.atomic import replacing
from majorant.files.encoding import Columns
from majorant.files.indexed import Indices
from majorant.files.schema import Schema, Wanted
from majorant.files.sources import CHUNK, FORMATS, Source
from majorant.files.table import Matrix, Table

__all__ = ["CHUNK", "FORMATS", "Columns", "Indices", "Matrix", "Schema", "Source", "Table", "Wanted", "replacing"]
