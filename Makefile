# Short names; noxfile.py has what they run, and more (nox -l).
PYTHON ?= python
NOX = $(PYTHON) -m nox --no-venv --session

.PHONY: lint sanitize docs release native figures gpu nightly
lint sanitize docs release:
	$(NOX) $@

# Compile the native engine into the checkout.
native:
	$(PYTHON) setup.py -q build_ext --inplace

# This processor's column of benchmarks/RESULTS.md, as in make figures NAME=zen3 ISA=avx2.
figures:
	$(PYTHON) benchmarks/processors.py $(NAME) $(if $(ISA),--isa $(ISA))

# All that needs a GPU, in ten minutes (docs/gpu.md); DEVICE=cpu rehearses it.
gpu:
	PYTHON=$(PYTHON) bash benchmarks/gpu.sh $(FIGURES)

# What is exhaustive and not part of the gate, a process for each core; a part that fails stops no
# other, and each prints its counts as it ends. Random numbers, and which native mutants are tried,
# change every day; SPECDEC_NIGHTLY_SEED repeats a day's, SPECDEC_NATIVE_MUTANTS=all tries all.
# The folders named have the longest tests. (nproc heeds OMP_NUM_THREADS.)
WORKERS ?= $(shell env -u OMP_NUM_THREADS nproc)
SLOW = decoding docs engine
nightly:
	$(MAKE) --keep-going --jobs $(WORKERS) --output-sync=target \
		$(addprefix nightly-,sanitize emulated fuzz slow-others $(SLOW:%=slow-%))
nightly-slow-others:
	$(NOX) slow -- tests $(SLOW:%=--ignore=tests/%)
nightly-slow-%:
	$(NOX) slow -- tests/$*
nightly-%:
	$(NOX) $*
