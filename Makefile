PYTHON ?= python

# The gate's Python and machine; LOCK_INDEX finds the CPU build of torch.
LOCK_INDEX ?= --extra-index-url https://download.pytorch.org/whl/cpu --index-strategy unsafe-best-match
LOCK = uv pip compile --quiet --generate-hashes --no-header --no-annotate --no-emit-index-url \
	--no-emit-find-links --python-version 3.11 --python-platform x86_64-manylinux_2_28 $(LOCK_INDEX)

# Folders of tests whose slow tests take longest.
SLOW = decoding docs engine

.PHONY: check native sanitize emulated fuzz nightly figures gpu docs \
	mutants wheels release lock audit clean slow-others $(SLOW:%=slow-%)

check:
	PYTHON=$(PYTHON) bash scripts/lib/check.sh

# Processes of make nightly: cores, counted without OMP_NUM_THREADS, which nproc heeds.
WORKERS ?= $(shell env -u OMP_NUM_THREADS nproc)

# Compile the native engine into the checkout.
native:
	$(PYTHON) setup.py -q build_ext --inplace

# The native engine's tests with GCC's sanitizers; needs g++.
sanitize:
	$(PYTHON) tests/engine/native/sanitize.py

# The engine's tests on emulated AArch64; needs g++-aarch64-linux-gnu, qemu-user and a network.
emulated:
	OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(PYTHON) tests/engine/native/emulated.py

# Random input of every kind for MINUTES minutes; SEED repeats a run. Prints seeds and counts.
MINUTES ?= 15
fuzz:
	SPECDEC_FUZZ_MINUTES=$(MINUTES) SPECDEC_FUZZ_SEED=$(SEED) \
		$(PYTHON) -m pytest -m fuzz tests/fuzz
	SPECDEC_FUZZ_MINUTES=$(MINUTES) SPECDEC_FUZZ_SEED=$(SEED) \
		$(PYTHON) tests/engine/native/sanitize.py --fuzz

# What is exhaustive and not part of the gate, a process for each core; a part that fails stops no
# other, and each prints its counts as it ends. Random numbers, and which native mutants are tried,
# change every day; SPECDEC_NIGHTLY_SEED repeats a day's, SPECDEC_NATIVE_MUTANTS=all tries all.
nightly:
	$(MAKE) --keep-going --jobs $(WORKERS) --output-sync=target sanitize emulated fuzz \
		slow-others $(SLOW:%=slow-%)

RUN_SLOW = OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 $(PYTHON) -m pytest -m slow
slow-others:
	$(RUN_SLOW) tests $(SLOW:%=--ignore=tests/%)

$(SLOW:%=slow-%): slow-%:
	$(RUN_SLOW) tests/$*

# This processor's column of benchmarks/RESULTS.md, as in make figures NAME=zen3 ISA=avx2.
figures:
	$(PYTHON) benchmarks/processors.py $(NAME) $(if $(ISA),--isa $(ISA))

# All that needs a GPU, in ten minutes (docs/gpu.md); DEVICE=cpu rehearses it.
gpu:
	PYTHON=$(PYTHON) bash benchmarks/gpu.sh $(FIGURES)

# The pages as a site; needs .[docs] and Python 3.11 or newer.
docs:
	@$(PYTHON) -c 'import furo, myst_parser, sphinx' 2>/dev/null || { echo "make docs: Sphinx is \
	missing; on Python 3.11 or newer, $(PYTHON) -m pip install '.[docs]'" >&2; exit 1; }
	$(PYTHON) -m sphinx -E -W --keep-going -q -b html docs docs/_build/html

# Changes of the code that no test notices, for a nightly run; needs mutmut.
# make mutants MODULES='acceptance engine/layout' SAMPLE=200 takes less long. Again after it was
# stopped, it goes on where it was.
mutants:
	OMP_NUM_THREADS=1 $(PYTHON) tests/mutants.py $(MODULES) $(if $(SAMPLE),--sample $(SAMPLE))

# Wheels with the native engine (x86-64 and aarch64, glibc 2.28 or later) and the source
# distribution, in dist; needs .[release] and no compiler. SOURCE_DATE_EPOCH stamps the files.
wheels:
	$(PYTHON) scripts/release/build.py wheels

# The same with digests, a bill of materials and twine's check; then the wheel of this machine is
# installed without a compiler on PATH, and decodes; the other's objects run under QEMU.
release:
	$(PYTHON) scripts/release/build.py release
	SPECDEC_WHEEL=$$(ls $(CURDIR)/dist/*_$$(uname -m).whl) \
		SPECDEC_AARCH64_WHEEL=$$(ls $(CURDIR)/dist/*_aarch64.whl) \
		$(PYTHON) -m pytest -q tests/test_wheel.py tests/engine/native/test_cross.py

# Renew the gate's lock files; needs uv.
lock:
	$(LOCK) requirements/gate-build.in -o requirements/gate-build.txt
	$(LOCK) requirements/gate.in setup.py --extra dev -o requirements/gate.txt

# Known faults of what the gate installs; needs pip-audit and its database. SECURITY.md argues each
# exception; pip-audit may know a fault by either name. --strict: what could not be asked about is
# no pass.
AUDIT = --strict --disable-pip --require-hashes
EXCEPTED = CVE-2025-3000 PYSEC-2025-194 CVE-2026-4538 PYSEC-2026-139
audit:
	sed 's/+cpu//' requirements/gate.txt | \
		pip-audit $(AUDIT) $(EXCEPTED:%=--ignore-vuln %) -r /dev/stdin
	pip-audit $(AUDIT) -r requirements/gate-build.txt

clean:
	rm -rf build dist docs/_build *.egg-info .mypy_cache .nox .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
