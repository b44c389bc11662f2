#!/usr/bin/env bash
# Writes the King James Bible, from the Debian package bible-kjv, as plain text to train on, one verse per line.
#   scripts/bible_text.sh [FILE]      default: runs/bible.txt
set -euo pipefail

file=${1:-runs/bible.txt}
if ! command -v bible >/dev/null; then
  echo "bible_text: error: the program 'bible' is missing (Debian: apt-get install bible-kjv)" >&2
  exit 1
fi
mkdir -p "$(dirname "$file")"
# Each line begins with the reference of the verse: "Ge1:1 In the beginning ...".
bible -f gen1:1-rev22:21 </dev/null | sed 's/^[^ ]* //' >"$file.tmp"
mv "$file.tmp" "$file"
echo "bible_text: wrote $file, $(wc -l <"$file") verses"
