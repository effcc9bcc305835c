// Fuzz fuzzes decoders for a while each, as many at once as there are CPUs, each with one worker. What is found is printed, and stays below
// the package's testdata, where it is a test from then on. The output is that of go test -v.
//
//	go run ./test/fuzz [-time D] PACKAGE[:TARGET,...]...
//
// What decodes the same thing in several ways is one decoder: its targets, by default all of the package, share the time.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"
)

func main() {
	each := flag.Duration("time", time.Minute, "for each decoder")
	flag.Parse()
	if flag.NArg() == 0 {
		fmt.Fprintln(os.Stderr, "fuzz: name packages with fuzz targets")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	found, err := run(ctx, flag.Args(), *each)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fuzz:", err)
		os.Exit(1)
	}
	if found {
		os.Exit(1)
	}
}

// run says whether an input was found that fails.
func run(ctx context.Context, names []string, each time.Duration) (found bool, err error) {
	dir, err := os.MkdirTemp("", "bperf-fuzz-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	b := &builder{dir: dir, binaries: map[string]binary{}}
	var decoders []decoder
	for _, name := range names {
		d, err := b.decoder(ctx, name)
		if err != nil {
			return false, err
		}
		decoders = append(decoders, d)
	}

	slots := make(chan struct{}, runtime.NumCPU())
	var running sync.WaitGroup
	var print sync.Mutex
	for _, d := range decoders {
		slots <- struct{}{}
		running.Go(func() {
			r := d.fuzz(ctx, each)
			<-slots
			print.Lock()
			defer print.Unlock()
			fmt.Print(r.text())
			found = found || r.failed()
		})
	}
	running.Wait()
	return found, ctx.Err()
}
