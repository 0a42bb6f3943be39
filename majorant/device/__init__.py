"""Rows on a GPU: tensors as matrices, twins of models, and where sums over them are taken."""
