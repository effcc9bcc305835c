package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/bperf/bperf/perfdata"
)

func TestBefore(t *testing.T) {
	const want = "program 8465 with tag 6246e60c0871a408 was loaded before the recording: bpf_prog_45f855d7b6c7af6e_twice, bpf_prog_130284938916883b_halve\n"
	check(t, "../../perfdata/testdata/bpf.data", want)
}

func TestWhile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "perf.data")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	event := &perfdata.Event{Attr: perfdata.Attr{SampleType: perfdata.SampleTID | perfdata.SampleTime, Flags: perfdata.AttrSampleIDAll}}
	w, err := perfdata.NewWriter(f, perfdata.Options{Events: []*perfdata.Event{event}})
	if err != nil {
		t.Fatal(err)
	}
	at := perfdata.SampleID{PID: 7, TID: 8, Time: 1_500_000_000}
	for _, v := range []perfdata.Value{
		&perfdata.Comm{PID: 7, TID: 7, Comm: "loader"},
		&perfdata.Fork{PID: 7, TID: 8, ParentPID: 7, ParentTID: 7},
		&perfdata.KSymbol{SampleID: at, Type: perfdata.KSymbolBPF, Name: "bpf_prog_1_first"},
		&perfdata.KSymbol{SampleID: at, Type: perfdata.KSymbolBPF, Name: "bpf_trampoline_1"},
		&perfdata.KSymbol{SampleID: at, Type: perfdata.KSymbolBPF, Name: "bpf_prog_2_second"},
		&perfdata.BPFEvent{SampleID: at, Type: perfdata.BPFEventLoad, ID: 3, Tag: [8]byte{1, 2, 3}},
		&perfdata.KSymbol{SampleID: at, Type: perfdata.KSymbolBPF, Name: "bpf_prog_1_first", Flags: perfdata.KSymbolUnregister},
		&perfdata.BPFEvent{SampleID: at, Type: perfdata.BPFEventUnload, ID: 3},
	} {
		if err := w.Write(0, v); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	check(t, file, "program 3 with tag 0102030000000000 was loaded at 1.500000 s by process 7 (loader): bpf_prog_1_first, bpf_prog_2_second\n")
}

func check(t *testing.T, file, want string) {
	t.Helper()
	var got bytes.Buffer
	if err := print(&got, file); err != nil {
		t.Fatal(err)
	}
	if got.String() != want {
		t.Errorf("it printed %q, want %q", &got, want)
	}
}
