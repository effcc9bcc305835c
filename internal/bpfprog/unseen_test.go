package bpfprog

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUnseen(t *testing.T) {
	for _, tt := range []struct {
		name string
		ids  []uint32 // in the order of their loads, at the times 1, 2 and so on
		want []gap
	}{
		{"one after another", []uint32{7, 8, 9}, nil},
		{"the first are not known", []uint32{700}, nil},
		{"one is missing", []uint32{7, 9, 10}, []gap{{8, 8, 2}}},
		{"many are", []uint32{7, 90, 91, 95}, []gap{{8, 89, 2}, {92, 94, 4}}},
		{"in another order", []uint32{7, 9, 8, 11, 10, 12}, nil},
		{"late", []uint32{7, 20, 10}, []gap{{8, 9, 2}, {11, 19, 2}}},
		{"late at the ends", []uint32{7, 20, 8, 19, 9}, []gap{{10, 18, 2}}},
		{"before the first", []uint32{7, 6, 8}, nil},
		{"begun anew", []uint32{2147483647, 1, 3}, []gap{{2, 2, 3}}},
		{"leapt", []uint32{1, 2147483646, 2147483647}, nil},
	} {
		var u unseen
		for i, id := range tt.ids {
			u.add(id, uint64(i+1))
		}
		if diff := cmp.Diff(tt.want, u.due(100), cmp.AllowUnexported(gap{})); diff != "" {
			t.Errorf("%s: -want +got:\n%s", tt.name, diff)
		}
		if left := u.due(100); left != nil {
			t.Errorf("%s: due twice: %v", tt.name, left)
		}
	}
	u := unseen{}
	for i, id := range []uint32{1, 3, 5} {
		u.add(id, uint64(i))
	}
	if due := u.due(1); len(due) != 1 || due[0].first != 2 || len(u.gaps) != 1 {
		t.Errorf("due %v, left %v", due, u.gaps)
	}
}
