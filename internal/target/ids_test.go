package target

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseIDs(t *testing.T) {
	tests := []struct {
		list string
		want []int
		err  string
	}{
		{list: "1", want: []int{1}},
		{list: "12, 7,2147483647", want: []int{12, 7, 2147483647}},
		{list: "", err: `ID list "": the list is empty`},
		{list: "0", err: `ID list "0": "0" is not a number from 1 to 2147483647`},
		{list: "-5", err: `ID list "-5": "-5" is not a number from 1 to 2147483647`},
		{list: "1-5", err: `ID list "1-5": "1-5" is not a number from 1 to 2147483647`},
		{list: "5,", err: `ID list "5,": "" is not a number from 1 to 2147483647`},
		{list: "bash", err: `ID list "bash": "bash" is not a number from 1 to 2147483647`},
		{list: "2147483648", err: `ID list "2147483648": "2147483648" is not a number from 1 to 2147483647`},
		{list: "7,8,7", err: `ID list "7,8,7": 7 is listed twice`},
	}
	for _, tt := range tests {
		got, err := ParseIDs(tt.list)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%q: %s", tt.list, diff)
		}
		checkError(t, err, tt.err)
	}
}

// checkError checks an error's text; empty for none.
func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
		t.Errorf("error: %v\nwant:  %s", err, want)
	}
}
