"""Small files under the names of the LIBSVM site, with the rows and features that those have."""

import bz2
import gzip
import lzma

PACKING = {"": bytes, ".bz2": bz2.compress, ".gz": gzip.compress, ".xz": lzma.compress}


def svmlight(n_rows, n_features, first=0):
    """``n_rows`` rows whose last feature holds the row's number, and labels -1 and +1 in turn.

    Feature 1 occurs only in every other row, so that files have zeros.
    """
    lines = []
    for row in range(first, first + n_rows):
        label, zero = ("-1", "") if row % 2 else ("+1", "1:0.5 ")
        lines.append(f"{label} {zero}{n_features}:{row + 1}".ljust(199) + "\n")
    return "".join(lines).encode()


# Neither has a known checksum of the site's file, so that files of the right size will do.
LIVER = svmlight(145, 5)
LIVER_TEST = svmlight(200, 4, first=145)
IRIS = svmlight(150, 4)
SITE = {
    "binary/liver-disorders": LIVER,
    "binary/liver-disorders.t": LIVER_TEST,
    "multiclass/iris.scale": IRIS,
    "binary/a9a": b"-1 3:1\n",  # a9a's checksum is known, and is not this one's
}
