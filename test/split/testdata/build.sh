#!/bin/sh
# Makes the programs of split.c, with clang 14 and lld.
set -e
cd "$(dirname "$0")"
flags="-O2 -fno-omit-frame-pointer -fasynchronous-unwind-tables -ffreestanding -fno-stack-protector -nostdlib -static -fuse-ld=lld -Wl,--build-id=none"
clang-14 -target x86_64-linux-gnu $flags -o split-amd64 split.c
clang-14 -target aarch64-linux-gnu $flags -o split-arm64 split.c
