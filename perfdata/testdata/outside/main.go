// Command outside prints the samples of a recording.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/bperf/bperf/perfdata"
)

func main() {
	r, err := perfdata.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer r.Close()
	for record, err := range r.Records() {
		if err != nil {
			log.Fatal(err)
		}
		if s, ok := record.Value.(*perfdata.Sample); ok {
			fmt.Printf("%s %d %#x\n", record.Event.Name, s.TID, s.IP)
		}
	}
}
