"""
Chunking sentences
==================

A conditional random field finds the phrases of CoNLL-2000, with a probability for each label of each token. The example
needs ``conll2000/`` in the folder ``MAJORANT_DATA``.
"""

import gzip
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from majorant import ChainCRF, metrics

folder = Path(os.environ.get("MAJORANT_DATA", "."), "conll2000")


def sentences(name, many):
    """Yield lists of (word, part of speech, label)."""
    with gzip.open(folder / f"{name}.txt.gz", "rt") as file:
        blocks = file.read().strip().split("\n\n")
    for block in blocks[:many]:
        yield [tuple(line.split()) for line in block.split("\n")]


def attributes(tokens):
    """Return the words and parts of speech around each token."""
    padded = [("", "^", ""), *tokens, ("", "$", "")]
    return [
        [f"w={w.lower()}", f"p={p}", f"end={w[-3:]}", f"p-1={before[1]}", f"p+1={after[1]}", f"w-1={before[0].lower()}",
         f"p-1|p={before[1]}|{p}", f"p|p+1={p}|{after[1]}"]
        for before, (w, p, _), after in zip(padded, tokens, padded[2:], strict=False)
    ]  # fmt: skip


# %%
# A thousand sentences train a good chunker in a second. The picture shows a sentence of the test part: darker labels
# are likelier, and the text marks the likeliest path.


def draw(model, tokens):
    marginals = model.predict_marginals_single(attributes(tokens))
    labels = sorted({label for token in marginals for label in token if token[label] > 0.02})
    p = np.array([[token[label] for token in marginals] for label in labels])
    _, axis = plt.subplots(figsize=(9.5, 0.3 * len(labels) + 1.9), layout="constrained")
    axis.imshow(p, cmap="Blues", vmin=0, vmax=1.3, aspect="auto")
    for at, label in enumerate(model.predict_single(attributes(tokens))):
        axis.text(at, labels.index(label), label.split("-")[0], ha="center", va="center", fontsize=9)
    axis.set_xticks(range(len(tokens)), [token[0] for token in tokens], rotation=60, ha="right")
    axis.set_yticks(range(len(labels)), labels)
    axis.tick_params(length=0)


if folder.is_dir():
    train, test = list(sentences("train", 1000)), list(sentences("test", 300))
    model = ChainCRF(c2=0.5).fit([attributes(s) for s in train], [[token[2] for token in s] for s in train])
    print(model.result_)
    found = model.predict([attributes(s) for s in test])
    print(f"F1 of chunks: {metrics.chunk_scores([[token[2] for token in s] for s in test], found).f1:.3f}")
    draw(model, next(s for s in test if 14 <= len(s) <= 22))
else:
    print("CoNLL-2000 was not found: set MAJORANT_DATA to see this example at work.")
