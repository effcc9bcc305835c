# Uses bperf as a package installed it, in its root: use.sh DIR-OF-ZSH-FUNCTIONS
set -eu
HOME=$(mktemp -d) # shells write there
export HOME
trap 'rm -r "$HOME"' EXIT
bperf version
bperf stat -e cpu-clock true
for page in bperf bperf-stat bperf-prog-show bperf-serve; do
	man -w "$page" >/dev/null
	man "$page" | grep -q '^NAME'
done
bash -n /usr/share/bash-completion/completions/bperf
bash -c '. /usr/share/bash-completion/bash_completion; . /usr/share/bash-completion/completions/bperf; complete -p bperf'
zsh -n "$1/_bperf"
zsh -fc 'fpath=("$1" $fpath); autoload -Uz compinit; compinit -u -D; [[ $_comps[bperf] = _bperf ]]' zsh "$1"
fish -n /usr/share/fish/vendor_completions.d/bperf.fish
fish -c 'complete -C "bperf st"' | grep -q '^stat'
# The service is there, starts nothing by itself, and has a configuration that bperf accepts.
test -e /usr/lib/systemd/system/bperf.service
test -z "$(find /etc/systemd /run/systemd -name 'bperf*' 2>/dev/null)"
bperf serve --print-config | cmp - /etc/bperf/bperf.yml
test -s /usr/share/doc/bperf/THIRD-PARTY-NOTICES.gz
