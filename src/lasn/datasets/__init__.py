"""Data sets of the LIBSVM site: the paper's 28, and the usual others.

``load(name)`` gives training and test rows. Files come from the folder ``LASN_DATA``, the cache or
the site; `lasn data` does the same on the command line.
"""

from lasn.datasets.download import fetch, fetch_file
from lasn.datasets.folders import DatasetError, cache_folder, find
from lasn.datasets.loading import Split, load
from lasn.datasets.reading import check, read_rows
from lasn.datasets.registry import DataFile, Dataset, dataset, datasets

__all__ = [
    "DataFile",
    "Dataset",
    "DatasetError",
    "Split",
    "cache_folder",
    "check",
    "dataset",
    "datasets",
    "fetch",
    "fetch_file",
    "find",
    "load",
    "read_rows",
]
