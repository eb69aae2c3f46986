"""``python -m lasn``: the command line."""

import sys

from lasn.cli import main

if __name__ == "__main__":
    sys.exit(main())
