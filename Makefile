# make help lists the targets. Everything is installed into .venv on first use, and again when
# pyproject.toml or constraints.txt change; a broken .venv is made anew.

PYTHON ?= python3
PYTHONS ?= python3.10 python3.11 python3.12 python3.13
TESTS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
LOG := $(VENV)/install.log
RECIPE = NMTKIT='$(CURDIR)/$(BIN)/nmtkit' PYTHON='$(CURDIR)/$(BIN)/python'

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo install test lint types format dist bench lock clean FORCE

# The stamp holds the folder it was made in, since scripts in a .venv break when it is moved. The
# interpreter behind .venv may also have gone.
ifneq ($(wildcard $(STAMP)),)
ifneq ($(shell $(BIN)/python -c "" 2>&1 && cat $(STAMP)),$(CURDIR))
$(STAMP): FORCE
endif
endif

help:
	@echo "make demo          a small translation task from raw text to scores: start here"
	@echo "make test          run the tests (some of them: make test TESTS='tests/test_links.py -x')"
	@echo "make lint          ruff: errors, style, layout"
	@echo "make types         mypy --strict"
	@echo "make format        put the code into ruff's layout"
	@echo "make dist          source archive and wheel, into dist/"
	@echo "make install       only install into .venv (all of the above do it when needed)"
	@echo "make recipe-NAME   run recipes/NAME (see the README.md there)"
	@echo "make bench         measure speed beside other toolkits: some hours, see benchmarks/README.md"
	@echo "make lock          renew constraints.txt with the interpreters PYTHONS='$(PYTHONS)'"
	@echo "make clean         remove .venv and everything else that was made, but not recipes' results"
	@echo "Another Python for .venv: make clean test PYTHON=python3.12"

demo: $(STAMP)
	@$(MAKE) -C recipes/demo $(RECIPE)

recipe-%: $(STAMP)
	@$(MAKE) -C recipes/$* $(RECIPE)

install: $(STAMP)

test: $(STAMP)
	$(BIN)/python -m pytest $(TESTS)

lint: $(STAMP)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

bench: $(STAMP)
	@$(MAKE) -C benchmarks PYTHON='$(CURDIR)/$(BIN)/python'

types: $(STAMP)
	$(BIN)/python -m mypy

format: $(STAMP)
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

dist: $(STAMP)
	rm -rf build dist
	$(BIN)/python -m build --no-isolation

lock:
	$(PYTHON) .ci/lock.py $(PYTHONS)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# .installing is left behind only when the installation was killed half-way: then nothing that lies
# in .venv can be trusted.
$(STAMP): pyproject.toml constraints.txt
	@if [ -e $(VENV)/.installing ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
		rm -rf $(VENV); \
		$(call check_python) \
		$(PYTHON) -m venv $(VENV) || \
			{ rm -rf $(VENV); echo "nmtkit: $(PYTHON) could not make $(VENV), see above" >&2; exit 1; }; \
	fi
	@rm -f $@; touch $(VENV)/.installing
	@echo "installing into $(VENV), once: this takes some minutes; the log is $(LOG)" >&2
	@$(BIN)/python -m pip install --disable-pip-version-check --no-input \
		-c constraints.txt -e ".[dev]" >$(LOG) 2>&1; status=$$?; \
	rm -f $(VENV)/.installing; \
	if [ $$status -ne 0 ]; then \
		grep '^ *ERROR' $(LOG) | head -n 1 >&2; \
		echo "nmtkit: could not install: is there a network / a package index? the log is $(LOG)" >&2; \
		exit 1; \
	fi
	@echo '$(CURDIR)' >$@

# One sentence for what is missing. Part of a shell command list, hence the semicolons.
define check_python
command -v $(PYTHON) >/dev/null 2>&1 || \
	{ echo "nmtkit: there is no $(PYTHON) here: install Python 3.10 to 3.13, or name it: make PYTHON=python3.12" >&2; exit 1; }; \
version=`$(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null` || \
	{ echo "nmtkit: $(PYTHON) does not run: name another Python: make PYTHON=python3.12" >&2; exit 1; }; \
case $$version in \
	3.1[0-3]) ;; \
	2.*|3.[0-9]) echo "nmtkit: $(PYTHON) is Python $$version, and 3.10 to 3.13 is needed: name another: make PYTHON=python3.12" >&2; exit 1;; \
	*) echo "nmtkit: warning: not tested with Python $$version, only with 3.10 to 3.13" >&2;; \
esac; \
$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	{ echo "nmtkit: $(PYTHON) lacks the modules venv and ensurepip: on Debian and Ubuntu install the package python3-venv" >&2; exit 1; };
endef
