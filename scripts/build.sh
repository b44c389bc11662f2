#!/usr/bin/env bash
# Configures (quietly, unless it fails) and builds one preset: scripts/build.sh PRESET JOBS [TARGET...]
set -euo pipefail
cd "$(dirname "$0")/.."
preset=$1 jobs=$2
shift 2

log=$(mktemp)
trap 'rm -f "$log"' EXIT
if ! cmake --preset "$preset" >"$log" 2>&1; then
  cat "$log" >&2
  exit 1
fi
cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"}
