module example.com/outside

go 1.26

require github.com/bperf/bperf v0.0.0
