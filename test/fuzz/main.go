// Fuzz fuzzes decoders, each for the same time and with one worker, as many at once as there are CPUs. It prints the inputs that fail and
// leaves them below the package's testdata, where they are tests from then on. The output has the format of go test -v.
//
//	go run ./test/fuzz [-time D] PACKAGE[:TARGET,...]...
//
// Each argument is one decoder. Its targets, by default all targets of the package, share the time. They usually decode the same data in
// several ways.
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

// run fuzzes the decoders and reports whether a target failed.
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
