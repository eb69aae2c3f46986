# make demo   train and evaluate a kernel SVM on data that ships with scikit-learn
# make test   everything that has to hold: format, lint, types, tests, doctests;
#             TORCH=2.13.0 installs that torch, without which the tests of devices are skipped
# make paper  the paper's experiments on the data that is here, and a page with its numbers beside ours;
#             QUICK=1 for a smoke test within three minutes
# make docs   the documentation in docs/build/html, examples run, warnings are errors, links checked
# make clean  remove what the other commands made
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: demo paper docs test check-format lint types pytest wheel clean

demo: $(VENV)/installed
	$(BIN)/python -m lasn.demo

# One thread each: LIBLINEAR and LIBSVM, which it compares with, cannot use more.
paper: $(VENV)/installed-plot
	cd benchmarks && OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} \
		$(abspath $(BIN))/python -m paper $(if $(QUICK),--quick)

# Nothing is fetched, neither by the build nor by the pages.
docs: $(VENV)/installed-docs
	$(BIN)/python -m sphinx -W --keep-going --nitpicky -q -d docs/build/doctrees docs docs/build/html
	$(BIN)/python docs/check_site.py docs/build/html

test: check-format lint types pytest

check-format: $(VENV)/installed-test
	$(BIN)/ruff format --check .

lint: $(VENV)/installed-test
	$(BIN)/ruff check .

types: $(VENV)/installed-test
	$(BIN)/mypy

# scikit-learn's array API checks run only where SciPy's support for it is on. Processes that run
# beside each other have a thread each: more would wait for cores.
pytest: $(VENV)/installed-test
	SCIPY_ARRAY_API=1 OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} $(BIN)/python -m pytest -n auto

wheel: $(VENV)/installed-test
	$(BIN)/python -m build --wheel --outdir dist

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[test]" \
		$(if $(TORCH),torch==$(TORCH))
	touch $@

$(VENV)/installed-docs: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	touch $@

$(VENV)/installed-plot: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[plot]"
	touch $@

clean:
	rm -rf docs/build docs/api docs/gallery
	rm -rf $(VENV) .ci-venv dist build .hypothesis .mypy_cache .pytest_cache .ruff_cache
