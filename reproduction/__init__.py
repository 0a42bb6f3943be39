"""The experiments of the papers, run again: data, runs, figures, and a report of which claims hold.

``majorant reproduce`` runs them from a source checkout. Runs are kept in files (:mod:`reproduction.store`), and figures
and reports read nothing else.
"""
