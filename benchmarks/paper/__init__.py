"""The paper's experiments again, beside the numbers that it prints.

``python -m paper`` (in ``benchmarks/``; ``make paper`` does it) runs what is not yet in
``results/*.csv`` for the data sets that are present and writes ``results/page.html``. An experiment
is a module with ``NAME``, ``KEYS``, ``cells(run)`` and ``measure(**key)``: cells are what there is
to run, and ``measure`` runs one of them in a process of its own.
"""
