#!/bin/sh
# Stops and disables the service before its files are removed. An upgrade leaves it running.
# dpkg passes "remove", and rpm the number of packages that stay.
set -e
case $1 in
remove | 0)
	if command -v systemctl >/dev/null; then
		systemctl --no-reload disable --now bperf.service || :
	fi
	;;
esac
