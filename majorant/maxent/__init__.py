"""Maximum entropy under given expectations: calibrated weights, and densities over finite sets."""
