# Installs bperf.rpm into a root with the rpm of this machine, uses it, and removes it: rpm.sh ROOT
# Debian's fish has vendor_completions.d, too, which is empty; rpm does not know that and removes it.
set -eu
list() { find "$1" -xdev \( -path "$1/proc" -o -path "$1/sys" -o -path "$1/dev" -o -path "$1/var" -o -path "$1/root" -o -path "$1/usr/share/fish/vendor_completions.d" \) -prune -o -print | sort; }
list "$1" >"$1/var/before"
rpm --root "$1" --initdb
rpm --root "$1" -i "$1/bperf.rpm"
rpm --root "$1" -V bperf
chroot "$1" sh /use.sh /usr/share/zsh/site-functions
rpm --root "$1" -e bperf
test ! -e "$1/usr/bin/bperf"
list "$1" | diff "$1/var/before" -
