# The newcomer's commands are `make demo` and `make test`; both first install what is missing.
PRESET ?= release
PREFIX ?= /usr/local
B = build/$(PRESET)

all: build

setup:
	@tools/setup

setup-tests:
	@tools/setup --tests

configure:
	@command -v cmake >/dev/null || { echo "make: cmake is missing; run 'make setup'"; exit 1; }
	@test -f $(B)/build.ninja || cmake --preset $(PRESET) >/dev/null

build: configure
	@cmake --build $(B)

# The Python package, in build/release/python: PYTHONPATH=build/release/python python3 -m cfx ...
python: setup build
	@test -f $(B)/python/cfx/_cfx.abi3.so || \
	    { echo "make: the Python package needs Python 3.11 or later with its headers"; exit 1; }

demo: setup build
	@tools/demo $(B)

test: setup-tests found build
	@tools/test $(B)

# What was installed after the build was configured is found: MPI.
found:
	@test ! -f $(B)/build.ninja || test -f $(B)/libcfx_mpi.so || cmake --preset $(PRESET) >/dev/null

# The tests under a sanitizer each: gcc's for addresses, clang's for the others.
CLANG = clang libclang-rt-dev libomp-dev llvm

asan: setup-tests
	@$(MAKE) --no-print-directory PRESET=$@ found build
	@tools/test build/$@

ubsan tsan:
	@tools/setup --tests $(CLANG)
	@$(MAKE) --no-print-directory PRESET=$@ build
	@tools/test build/$@

# Use of memory that nobody wrote: valgrind over the rooms that read what others made, and over
# plans, decompositions and all else that is left half done when a limit is reached.
memcheck:
	@tools/setup --tests valgrind
	@$(MAKE) --no-print-directory build
	@valgrind -q --error-exitcode=9 --trace-children=yes --child-silent-after-fork=no \
	    $(B)/cfx_tests -j 2 -t 900 src/value src/graph src/emit src/pack
	@CFX_SAMPLES=10 valgrind -q --error-exitcode=9 --trace-children=yes \
	    --child-silent-after-fork=no $(B)/cfx_tests -j 2 -t 900 time_runs_out once_differed

fuzz:
	@tools/setup $(CLANG)
	@$(MAKE) --no-print-directory PRESET=fuzz build
	@echo "build/fuzz/fuzz/fuzz_NAME [-max_total_time=S] FOLDER... searches; see fuzz/fuzz.h"

coverage: setup-tests
	@$(MAKE) --no-print-directory PRESET=coverage build
	@tools/coverage build/coverage

lint:
	@tools/lint

bench: build
	@tools/bench $(B)
	@tools/bench_threads $(B)/cfx
	@tools/bench_zoo $(B)/cfx
	@test -z "$(CFX_MODELS)" || tools/bench_models $(B)
	@test -z "$(CFX_MODELS)" || tools/bench_compile $(B) $(CFX_MODELS)/*
	@test -z "$(CFX_MODELS)" || tools/bench_ranks $(B)

# Stripped; `make install-debug` puts what debuggers want beside, where they look for it.
install: build
	@DESTDIR=$(DESTDIR) cmake --install $(B) --prefix $(PREFIX) --strip

install-debug: build
	@for f in $(B)/cfx $(B)/libcfx.so; do \
	    id=$$(readelf -n $$f | sed -n 's/.*Build ID: //p'); \
	    d=$(DESTDIR)$(PREFIX)/lib/debug/.build-id/$$(printf %.2s $$id); \
	    mkdir -p $$d && objcopy --only-keep-debug $$f $$d/$${id#??}.debug || exit 1; done

# Removes what the last install wrote, the list that it left, and the folders that were cfx's own.
uninstall:
	@test -f $(B)/install_manifest.txt || { echo "uninstall: nothing was installed from $(B)"; exit 1; }
	@sed 's|^|$(DESTDIR)|' $(B)/install_manifest.txt | xargs -d '\n' rm -f
	@sed -n 's|^\(.*/cfx/.*\)/[^/]*$$|$(DESTDIR)\1|p; s|^\(.*/cfx\)/.*$$|$(DESTDIR)\1|p' \
	    $(B)/install_manifest.txt | sort -ru \
	    | while read -r d; do rm -rf "$$d/__pycache__" && rmdir "$$d" || exit 1; done
	@rm $(B)/install_manifest.txt

# A wheel in build/wheel, with the libraries that it needs: pip install build/wheel/*.whl
wheel: python
	@tools/wheel $(B) build/wheel

# Debian packages in build/deb: libcfx1, libcfx-dev, cfx and python3-cfx.
deb: setup
	@tools/setup dpkg-dev
	@tools/deb build/deb

# The command with all that it needs, in build/cfx-VERSION-x86_64.tar.gz: unpacked anywhere, it runs.
tarball: setup build
	@tools/setup libturbojpeg0 libutf8proc2
	@tools/tarball $(B) build

clean:
	@rm -rf build

.NOTPARALLEL:
.PHONY: all setup setup-tests configure build found python demo test asan ubsan tsan memcheck fuzz coverage lint \
    bench install install-debug uninstall wheel deb tarball clean
