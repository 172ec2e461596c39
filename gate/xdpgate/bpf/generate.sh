#!/bin/sh
# Makes the committed objects of a package from its C program: generate.sh IDENT SOURCE [bpf2go options]
#
# Without clang the committed ones stay: nobody needs it who does not change the program. The objects must not depend on where or
# by whom they are made: paths are cut off, and DWARF is stripped by bpf2go.
set -eu
ident=$1 source=$2
shift 2
if ! command -v clang >/dev/null 2>&1 || ! command -v llvm-strip >/dev/null 2>&1; then
	echo "clang or llvm-strip not found: the objects of $source are left as they are" >&2
	exit 0
fi
# Another version makes other objects, which are as good, but not the same.
version=$(clang -dumpversion)
if [ "${version%%.*}" != 14 ]; then
	echo "clang 14 makes the objects, this is $version: those of $source are left as they are" >&2
	exit 0
fi
if [ ! -e /usr/include/bpf/bpf_helpers.h ]; then
	echo "libbpf-dev not found: the objects of $source are left as they are" >&2
	exit 0
fi
exec go tool bpf2go -go-package "${GOPACKAGE:?run by go generate}" -target bpfel -tags linux -cc clang "$@" "$ident" "$source" -- \
	-O2 -g -Wall -Werror -mcpu=v3 "-I/usr/include/$(uname -m)-linux-gnu" "-ffile-prefix-map=$(pwd)=."
