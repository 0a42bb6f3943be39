"""What every family of models shares: rows, matrices, models, penalties, metrics, certificates, solvers, the loop."""
