#!/usr/bin/env bash
# Installs the missing packages that Mobius needs to build and test.
#   scripts/install_deps.sh           install (with sudo unless root)
#   scripts/install_deps.sh --check   only list missing packages; exit 1 if there are any
set -euo pipefail

packages=(
  g++ make cmake ninja-build
  libdnnl-dev libhwy-dev libfmt-dev libyaml-cpp-dev libhdf5-dev nlohmann-json3-dev libcli11-dev
  libsentencepiece-dev
  libboost-dev # headers alone: numbers of 50 digits
  liblapacke-dev
  libjs-chart.js # embedded in the program, for its reports
  libopenmpi-dev openmpi-bin
  libgtest-dev libgmock-dev libbenchmark-dev
  pkg-config # used by a test that builds against an installed Mobius
  python3 python3-numpy python3-h5py # used by a test that reads a checkpoint from Python
  bible-kjv # a text to train on
)

fail() {
  echo "install_deps: error: $*" >&2
  exit 1
}

installed() {
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  echo "install_deps: this system has no apt-get, so nothing was installed. Mobius needs a C++20" >&2
  echo "compiler, CMake 3.25 and the contents of these Debian 12 packages:" >&2
  printf '  %s\n' "${packages[@]}" >&2
  echo "Install them with your package manager, then run: cmake --preset release && cmake --build --preset release" >&2
  exit 1
fi

missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done
if [ "${#missing[@]}" -eq 0 ]; then
  exit 0
fi
if [ "${1:-}" = --check ]; then
  fail "missing: ${missing[*]}"
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "needs root to install ${missing[*]}, and there is no sudo"
  as_root=(sudo)
fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" </dev/null
}

echo "install_deps: installing ${missing[*]}"
apt update || fail "apt-get update failed; is a Debian mirror reachable?"
apt install --yes --no-install-recommends "${missing[@]}" >/dev/null ||
  fail "apt-get could not install: ${missing[*]} (by hand: apt-get install ${missing[*]})"
