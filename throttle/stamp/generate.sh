#!/bin/sh
# Makes the committed module of a program in WebAssembly text: generate.sh NAME
#
# Without npm the committed one stays: nobody needs it who does not change the program.
set -eu
if ! command -v npx >/dev/null 2>&1; then
	echo "npx not found: $1.wasm is left as it is" >&2
	exit 0
fi
exec npx --yes --loglevel error --package wabt@1.0.39 wat2wasm "$1.wat" -o "$1.wasm"
