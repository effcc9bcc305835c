#!/bin/sh
# Makes the programs of deep.c, with clang 14 and lld.
set -e
cd "$(dirname "$0")"
flags="-O2 -fomit-frame-pointer -fasynchronous-unwind-tables -ffreestanding -fno-stack-protector -nostdlib -static -fuse-ld=lld -Wl,--build-id=none"
clang-14 -target x86_64-linux-gnu $flags -Wl,--no-eh-frame-hdr -o deep-amd64 deep.c
clang-14 -target aarch64-linux-gnu $flags -mbranch-protection=pac-ret+leaf -Wl,--no-eh-frame-hdr -o deep-arm64 deep.c
