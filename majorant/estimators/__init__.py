"""Estimators of all families: settings, fitting, files, checkpoints, data larger than memory."""
