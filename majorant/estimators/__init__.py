"""What estimators of all families share: settings, fitting, files, checkpoints, data larger than memory."""
