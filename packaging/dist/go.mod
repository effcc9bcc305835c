module github.com/bperf/bperf/packaging/dist

go 1.26.8
