// Command loadedby prints who loaded which BPF program, as far as a recording of perf or bperf shows it:
//
//	bperf record -a sleep 60
//	go run ./examples/loadedby perf.data
package main

import (
	"fmt"
	"io"
	"log"
	"os"
	"strings"

	"github.com/bperf/bperf/perfdata"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: loadedby FILE")
	}
	if err := print(os.Stdout, os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// print prints a line for each program: when it was loaded and by whom, its ID, and its functions.
func print(w io.Writer, file string) error {
	r, err := perfdata.Open(file)
	if err != nil {
		return err
	}
	defer r.Close()
	comms := map[int32]string{}       // by TID
	functions := map[int32][]string{} // functions of the program that a thread is loading, by TID
	for record, err := range r.Records() {
		if err != nil {
			return err
		}
		switch v := record.Value.(type) {
		case *perfdata.Comm:
			comms[v.TID] = v.Comm
		case *perfdata.Fork:
			comms[v.TID] = comms[v.ParentTID]
		case *perfdata.KSymbol: // the kernel writes one for each function, then the program's BPF_EVENT; trampolines and dispatchers belong to no program
			if strings.HasPrefix(v.Name, "bpf_prog_") && v.Flags&perfdata.KSymbolUnregister == 0 {
				functions[v.SampleID.TID] = append(functions[v.SampleID.TID], v.Name)
			}
		case *perfdata.BPFEvent:
			if v.Type != perfdata.BPFEventLoad {
				continue
			}
			who := "before the recording"
			if v.SampleID.PID > 0 {
				who = fmt.Sprintf("at %.6f s by process %d", float64(v.SampleID.Time)/1e9, v.SampleID.PID)
				if comm := comms[v.SampleID.TID]; comm != "" {
					who += " (" + comm + ")"
				}
			}
			fmt.Fprintf(w, "program %d with tag %x was loaded %s: %s\n", v.ID, v.Tag, who, strings.Join(functions[v.SampleID.TID], ", "))
			delete(functions, v.SampleID.TID)
		}
	}
	return nil
}
