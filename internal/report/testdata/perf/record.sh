#!/bin/sh
# Makes what TestPerf compares with: a recording as perf script prints it, and perf's own reports of it. It needs perf 6.1 and gcc.
set -e
dir=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
gcc -O1 -static -nostdlib -fno-builtin -fno-stack-protector -fno-omit-frame-pointer -fno-optimize-sibling-calls -o "$work/load" "$dir/load.c"
cp "$work/load" "$work/work"
cd "$work"
perf record -o load.data -e "{cpu-clock/period=500000/,page-faults/period=200/}" -e minor-faults/period=1000/ -g ./load ./work
perf script -i load.data -F comm,pid,tid,time,event,period,ip,sym,symoff,dso | sed "s,$work,/usr/bin,;s,/load.data,," | gzip -9n >"$dir/load.script.gz"
report() {
	name=$1
	shift
	{
		echo "# perf report --stdio $*"
		perf report -i load.data --stdio "$@" 2>/dev/null | sed '1,2d;/^# (Tip/,$d'
	} >"$dir/$name.txt"
}
report none --no-children -g none
report children-none --children -g none
report children --children
report callee --no-children
report caller --no-children -g graph,0.5,caller
report children-callee --children -g graph,0.5,callee
report fractal --no-children -g fractal,3,callee
report flat --no-children -g flat,2
report folded --no-children -g folded,2,count
report period --no-children -g graph,5,period
report sort --no-children -g none -s dso,comm -n --show-total-period
report symbol --no-children -s sym -g graph,10
report pid --no-children -s pid,dso -g none
report limit --children --percent-limit 5
report filter --no-children -g none -c load -d [kernel.kallsyms],load
report elided --no-children -g none -d load
report fields --no-children -g none -F sym,overhead,sample
report relative --no-children -g none -d load --percentage relative
