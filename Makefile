# The newcomer's commands are `make demo` and `make test`; both first install what is missing.
PRESET ?= release
PREFIX ?= /usr/local
B = build/$(PRESET)

all: build

setup:
	@tools/setup

configure:
	@test -f $(B)/build.ninja || cmake --preset $(PRESET) >/dev/null

build: configure
	@cmake --build $(B)

demo: setup build
	@tools/demo $(B)

test: setup build
	@tools/test $(B)

asan:
	@$(MAKE) --no-print-directory PRESET=asan build
	@tools/test build/asan

lint:
	@tools/lint

bench: build
	@tools/bench $(B)

install: build
	@DESTDIR=$(DESTDIR) cmake --install $(B) --prefix $(PREFIX)

clean:
	@rm -rf build

.NOTPARALLEL:
.PHONY: all setup configure build demo test asan lint bench install clean
