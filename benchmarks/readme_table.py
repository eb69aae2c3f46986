"""Put the measured table and picture into README.md: what ``results/`` has, nothing typed.

Replaces what stands between the lines ``<!-- measured -->`` and ``<!-- end of measured -->``, and
writes docs/_static/measured.svg. With --check nothing is written, and the exit status is 1 if
README.md or the picture is not what the results say.
"""

import re
import sys

import picture
import published
from measure import HERE, parser

README = HERE.parent / "README.md"
PICTURE = HERE.parent / "docs" / "_static" / "measured.svg"
_PART = re.compile(r"(<!-- measured -->\n).*(<!-- end of measured -->)", re.DOTALL)


def measured() -> str:
    """The part of README.md between its marks."""
    names = " ".join(published.FIRST_PAGE)
    text = (
        f"![{picture.description(published.FIRST_PAGE)}](docs/_static/measured.svg)\n\n"
        f"{published.first_page().markdown()}\n\n"
        "Two cores, each set in one run, every competitor in its own process, C = 10, gamma =\n"
        f"1/total variance: `python benchmarks/compare.py --data {names}`. What each was\n"
        "given, and all rows: `benchmarks/README.md`.\n"
    )
    fits = published.gpu_fits()
    if fits is not None:
        each = ", ".join(f"k = {row[0]}: **{row[1]} s**" for row in fits.rows)
        text += f"On one GPU (H200), {published.gpu_rows()} rows, {each}"
        text += " (`python benchmarks/gpu.py`).\n"
    return text


def wanted() -> dict:
    """The contents that both files should have."""
    text, count = _PART.subn(lambda part: part[1] + measured() + part[2], README.read_text())
    if count != 1:
        raise SystemExit(
            "README.md needs one pair of marks <!-- measured -->, <!-- end of measured -->"
        )
    return {README: text, PICTURE: picture.picture()}


def main() -> int:
    command = parser(__doc__)
    command.add_argument("--check", action="store_true", help="write nothing, exit 1 if it differs")
    options = command.parse_args()
    status = 0
    for path, text in wanted().items():
        if path.exists() and path.read_text() == text:
            continue
        if options.check:
            print(
                f"{path.name} is not what benchmarks/results has: python benchmarks/readme_table.py"
            )
            status = 1
        else:
            path.write_text(text)
            print(f"wrote {path.relative_to(HERE.parent)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
