"""Linear classifiers: labelled rows, multinomial and binary models, logistic regression, paths, streams, probes."""
