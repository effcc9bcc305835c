package perfdata_test

import (
	"bytes"
	"fmt"
	"log"
	"os"

	"github.com/bperf/bperf/perfdata"
)

// Example prints the first samples of a recording.
func Example() {
	r, err := perfdata.Open("testdata/callchain.data")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	left := 3
	for record, err := range r.Records() {
		if err != nil {
			log.Fatal(err)
		}
		s, ok := record.Value.(*perfdata.Sample)
		if !ok {
			continue
		}
		fmt.Printf("%s: thread %d at %#x, %d addresses in its callchain\n", record.Event.Name, s.TID, s.IP, len(s.Callchain))
		if left--; left == 0 {
			break
		}
	}
	// Output:
	// cpu-clock: thread 13649 at 0xffffffff8168bad1, 14 addresses in its callchain
	// cpu-clock: thread 13649 at 0x7f76a675a3e0, 2 addresses in its callchain
	// cpu-clock: thread 13649 at 0x7f76a6759645, 3 addresses in its callchain
}

// Features say where and how a recording was made.
func ExampleFeatures() {
	r, err := perfdata.Open("testdata/callchain.data")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	f := r.Features()
	fmt.Println(f.Text(perfdata.FeatureHostname), f.Text(perfdata.FeatureOSRelease), f.Text(perfdata.FeatureArch))
	v, err := f.Get(perfdata.FeatureCmdline)
	if err != nil {
		log.Fatal(err)
	}
	if line, ok := v.(perfdata.CommandLine); ok {
		fmt.Println(line)
	}
	// Output:
	// box 6.18.44 x86_64
	// [/usr/bin/perf record -o callchain.data -g -e cpu-clock -F 5000 -- ls -R /usr/share/doc/perl]
}

// A Writer of a file needs to seek, because Close completes the header at the start of the file.
func ExampleNewWriter() {
	f, err := os.CreateTemp("", "perf.data")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	write(perfdata.NewWriter(f, perfdata.Options{Events: []*perfdata.Event{clock}}))
	r, err := perfdata.Open(f.Name())
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	read(r)
	fmt.Println(r.Features().Text(perfdata.FeatureArch))
	// Output:
	// 7 spin
	// cpu-clock 0x401000
	// x86_64
}

// A pipe is written and read sequentially, as in perf record -o - | perf report -i -. A feature has the names of the events.
func ExampleNewPipeWriter() {
	var pipe bytes.Buffer
	names := perfdata.EventDescriptions{{Attr: clock.Attr, Name: clock.Name}}
	write(perfdata.NewPipeWriter(&pipe, perfdata.Options{Events: []*perfdata.Event{clock},
		StartFeatures: map[perfdata.FeatureID]perfdata.FeatureValue{perfdata.FeatureEventDesc: names}}))
	r, err := perfdata.NewPipeReader(&pipe)
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	read(r)
	// Output:
	// 7 spin
	// cpu-clock 0x401000
}

var clock = &perfdata.Event{Name: "cpu-clock", Attr: perfdata.Attr{Type: perfdata.TypeSoftware, Config: perfdata.SoftwareCPUClock,
	SampleType: perfdata.SampleIP | perfdata.SampleTID | perfdata.SampleTime, Flags: perfdata.AttrSampleIDAll}}

// write writes the name of a thread and a sample of the thread.
func write(w *perfdata.Writer, err error) {
	if err != nil {
		log.Fatal(err)
	}
	w.Write(perfdata.MiscUser, &perfdata.Comm{PID: 7, TID: 7, Comm: "spin"})
	w.Write(perfdata.MiscUser, &perfdata.Sample{SampleID: perfdata.SampleID{PID: 7, TID: 7, Time: 1000}, IP: 0x401000})
	w.SetFeature(perfdata.FeatureArch, perfdata.Text("x86_64"))
	if err := w.Close(); err != nil { // returns the first error of any call
		log.Fatal(err)
	}
}

// read prints the names and the samples of a recording.
func read(r *perfdata.Reader) {
	for record, err := range r.Records() {
		if err != nil {
			log.Fatal(err)
		}
		switch v := record.Value.(type) {
		case *perfdata.Comm:
			fmt.Println(v.PID, v.Comm)
		case *perfdata.Sample:
			fmt.Printf("%s %#x\n", record.Event.Name, v.IP)
		}
	}
}
