#!/usr/bin/env bash
# Writes the King James Bible as plain text, a verse a line: a text to train on that comes as a Debian package (bible-kjv).
#   scripts/bible_text.sh [FILE]      default: runs/bible.txt
set -euo pipefail

file=${1:-runs/bible.txt}
if ! command -v bible >/dev/null; then
  echo "bible_text: error: there is no program 'bible' (Debian: apt-get install bible-kjv)" >&2
  exit 1
fi
mkdir -p "$(dirname "$file")"
# Each line begins with the place of the verse: "Ge1:1 In the beginning ...".
bible -f gen1:1-rev22:21 </dev/null | sed 's/^[^ ]* //' >"$file.tmp"
mv "$file.tmp" "$file"
echo "bible_text: wrote $file, $(wc -l <"$file") verses"
