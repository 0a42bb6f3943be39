"""Linear-chain conditional random fields: tokens, features, the model, its kernels and estimators."""
