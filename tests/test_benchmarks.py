"""The benchmarks still run: smoke tests on generated rows, and every name they take of lasn."""

import ast
import csv
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from shell import environment

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"
SOURCES = sorted(BENCHMARKS.rglob("*.py"))
MODULES = [
    ".".join(path.relative_to(BENCHMARKS).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCES
]
# Small enough for a second or two; what they measure so means nothing.
SMOKE = {
    "floor": (["--only", "fit", "--cases", "generated-1000:50", "--repeat", "1"], "floor-quick"),
    "compare": (
        ["--data", "generated-1000", "--peers", "lasn", "--peer-k", "20", "--our-k", "20"],
        "compare-generated-1000-quick",
    ),
}


@pytest.mark.parametrize("script", SMOKE)
def test_a_smoke_test_runs_without_data_files(script, tmp_path):
    flags, results = SMOKE[script]
    kept = sorted(os.listdir(BENCHMARKS / "results"))
    run(script, *flags, folder=tmp_path)
    with open(tmp_path / "results" / f"{results}.csv", newline="") as file:
        records = list(csv.DictReader(file))
    assert records
    assert {record["status"] for record in records} == {"ok"}
    assert sorted(os.listdir(BENCHMARKS / "results")) == kept


def test_the_command_line_is_measured_without_data_files(tmp_path):
    said = run(
        "command_line", "--rows", "2000", "--bytes", "100000", "--repeats", "1", folder=tmp_path
    )
    for title in ("A CSV file of 2000 rows", "Loading 1000 landmarks", "svmlight text"):
        assert title in said


def test_the_exact_solver_is_measured_on_a_device(tmp_path):
    pytest.importorskip("torch", reason="torch is not installed")
    flags = ["--device", "torch", "--data", "generated-3000", "--cpu", "generated-3000"]
    said = run("exact_gpu", *flags, folder=tmp_path)
    assert "generated-3000 on torch: U, active, CG steps" in said
    with open(tmp_path / "results" / "exact_gpu-quick.csv", newline="") as file:
        records = list(csv.DictReader(file))
    assert [record["device"] for record in records] == ["torch", "cpu"]
    assert all(float(record["relative_gap"]) <= 1e-4 for record in records)


def run(script, *flags, folder):
    """Standard output of a script's smoke test in which no file of data can be found."""
    places = {
        "LASN_BENCH_RESULTS": str(folder / "results"),
        "LASN_BENCH_CACHE": str(folder / "parsed"),
        "LASN_CACHE": str(folder / "cache"),
        "LASN_DATA": str(folder / "nothing"),
    }
    done = subprocess.run(
        [sys.executable, BENCHMARKS / f"{script}.py", "--quick", *flags],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**environment(), **places},
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_can_be_imported(name):
    try:
        import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        pytest.skip("torch is not installed")


@pytest.mark.parametrize("path", SOURCES, ids=MODULES)
def test_what_a_benchmark_takes_of_lasn_is_there(path):
    for module, name in imported_of_lasn(ast.parse(path.read_text())):
        try:
            if not hasattr(import_module(module), name):
                import_module(f"{module}.{name}")
        except ModuleNotFoundError as error:
            if error.name not in ("torch", "triton"):
                raise


def imported_of_lasn(tree):
    """Module and name of each import, inside functions and in the text of programs too."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "lasn":
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Constant) and is_program(node.value):
            yield from imported_of_lasn(ast.parse(node.value))


def is_program(value):
    return isinstance(value, str) and "\nfrom lasn" in value
