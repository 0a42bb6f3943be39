"""Measurements. They live outside the package, share one objective, and keep failures as rows."""
