package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseCounts(t *testing.T) {
	tests := []struct {
		name, in string
		want     counts
		wantErr  string
	}{
		{"a file of perf", "# started on Sat Nov 21 07:37:40 2026\n\n50122568,,instructions,36743040,100.00,,\n",
			counts{{"instructions", 50122568, 100, true}}, ""},
		{"multiplexed, and not at all", "51071464,,cycles,18,17.30,,\n<not counted>,,cycles:u,0,0.00,,\n",
			counts{{"cycles", 51071464, 17.3, true}, {"cycles:u", 0, 0, false}}, ""},
		{"nothing", "\n", nil, "it printed no counts"},
		{"an error", "Error: no, no\n", nil, `"Error: no, no": not a row of counts`},
		{"no number", "many,,cycles,18,17.30,,\n", nil, `"many,,cycles,18,17.30,,": strconv.ParseFloat: parsing "many": invalid syntax`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseCounts(tt.in)
			if tt.wantErr != "" {
				if err == nil || err.Error() != tt.wantErr {
					t.Fatalf("got error %v, want %s", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(row{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
