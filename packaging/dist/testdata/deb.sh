# Installs /bperf.deb, uses it, and removes it.
set -eu
list() { find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /var/lib/dpkg -o -path /var/log -o -path /var/cache \) -prune -o -print | sort; }
touch /before /after
list >/before
dpkg -i /bperf.deb
sh /use.sh /usr/share/zsh/vendor-completions
echo '# mine' >>/etc/bperf/bperf.yml
dpkg -r bperf
test ! -e /usr/bin/bperf
grep -q '# mine' /etc/bperf/bperf.yml # the administrator's file stays until the package is purged
dpkg -P bperf
list >/after
diff /before /after
