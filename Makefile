# `make help` lists the targets. Every target first installs missing packages, configures and builds.
jobs ?= $(shell nproc)
preset = release

.DEFAULT_GOAL := help
.PHONY: help deps build demo experiments test test-asan bench gpu-check format clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

deps: ## install missing Debian packages
	@scripts/install_deps.sh

build: deps ## build the program, its tests and benchmarks
	@scripts/build.sh $(preset) $(jobs)

demo: deps ## train softmax and conformal attention on associative recall and compare them
	@scripts/build.sh $(preset) $(jobs) mobius
	build/mobius compare configs/recall/demo.yaml

experiments: deps ## run all experiments and write docs/experiments/
	@scripts/build.sh $(preset) $(jobs) mobius
	test -s runs/bible.txt || scripts/bible_text.sh
	build/mobius experiment --all --out docs/experiments

test: build ## run all tests
	ctest --preset $(preset) --parallel $(jobs)

test-asan: preset = asan
test-asan: build ## run the unit tests under the address and undefined-behaviour sanitizers
	ctest --preset $(preset) --parallel $(jobs)

bench: build ## time matrix products, training steps, attention and decoding, and PyTorch's if installed
	python3 bench/run.py --build build

gpu-check: deps ## test and measure on this machine's GPU, within 8 minutes with the build
	scripts/gpu_check.py --jobs $(jobs)

format: ## run clang-format on every source
	git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

clean: ## remove the build folders
	rm -rf build build-debug build-asan
