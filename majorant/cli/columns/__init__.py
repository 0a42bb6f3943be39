"""Sentences in columns: CoNLL files, and what the attributes of their tokens are.

``conll`` reads and writes the files; ``templates``, and ``crfpp`` in the format of CRF++, say which fields around a
token are its attributes; ``attributes`` works them out for many sentences at once.
"""
