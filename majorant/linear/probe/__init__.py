"""Linear probes: a head on frozen features, its penalty chosen by a sweep."""
