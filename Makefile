# One command each; `make help` lists them. Every target installs what is missing, configures and builds first.
jobs ?= $(shell nproc)
preset = release

.DEFAULT_GOAL := help
.PHONY: help deps build demo test test-asan bench format clean

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

deps: ## install the Debian packages that are missing
	@scripts/install_deps.sh

build: deps ## build/mobius, its tests and benchmarks
	@scripts/build.sh $(preset) $(jobs)

demo: deps ## train softmax and conformal attention on associative recall and compare them
	@scripts/build.sh $(preset) $(jobs) mobius
	build/mobius compare configs/recall/demo.yaml

test: build ## all tests
	ctest --preset $(preset) --parallel $(jobs)

test-asan: preset = asan
test-asan: build ## unit tests under the address and undefined-behaviour sanitizers
	ctest --preset $(preset) --parallel $(jobs)

bench: build ## matrix products; a training step and attention beside PyTorch's where that is installed
	python3 bench/run.py --build build

format: ## clang-format every source
	git ls-files '*.h' '*.cpp' | xargs clang-format -i

clean: ## remove the build folders
	rm -rf build build-debug build-asan
