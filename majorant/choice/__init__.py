"""Discrete choice: sets of alternatives, models of enumerated outcomes, conditional and latent class logit."""
