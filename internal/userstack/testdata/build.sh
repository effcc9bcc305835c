#!/bin/sh
# Makes the programs of deep.c, with clang 16, whose tables for arm64 are right in prologues and epilogues, and its lld.
set -e
cd "$(dirname "$0")"
flags="-O2 -fomit-frame-pointer -fasynchronous-unwind-tables -ffreestanding -fno-stack-protector -nostdlib -static -fuse-ld=lld-16 -Wl,--build-id=none"
clang-16 -target x86_64-linux-gnu $flags -Wl,--no-eh-frame-hdr -o deep-amd64 deep.c
clang-16 -target aarch64-linux-gnu $flags -mbranch-protection=pac-ret+leaf -Wl,--no-eh-frame-hdr -o deep-arm64 deep.c
