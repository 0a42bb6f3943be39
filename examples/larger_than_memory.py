"""Fit a folder of Parquet files that is larger than memory, in ten lines.

    python -m examples.larger_than_memory FOLDER TARGET

Without arguments it writes a small folder first.
"""

import sys
import tempfile

import numpy as np

from majorant import Checkpoint, LogisticRegression, Parquet


def write(folder: str, files: int = 5, rows: int = 20_000) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    for number in range(files):
        rng = np.random.default_rng(number)
        X = rng.normal(size=(rows, 3))
        bought = np.where(X @ [1.0, -2.0, 0.5] + rng.logistic(size=rows) > 0, "yes", "no")
        table = pa.table({"price": X[:, 0], "age": X[:, 1], "visits": X[:, 2], "bought": bought})
        pa.parquet.write_table(table, f"{folder}/part-{number}.parquet")


def main(folder: str | None = None, target: str = "bought") -> None:
    if folder is None:
        folder = tempfile.mkdtemp()
        write(folder)
    data = Parquet(folder, target=target)
    model = LogisticRegression(C=1.0, verbose=1, callbacks=[Checkpoint(f"{folder}/model.npz")])
    model.fit(data)  # killed? model.fit(data, resume_from=f"{folder}/model.npz") goes on
    print(model.result_)
    print(dict(zip(model.feature_names_in_, model.coef_[0].round(2).tolist(), strict=False)))
    print(f"accuracy {model.score(data):.3f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
