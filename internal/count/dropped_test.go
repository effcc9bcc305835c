package count

import "testing"

func TestDropped(t *testing.T) {
	sum := Dropped{DroppedSwitched: 1}
	sum.Add(&Dropped{DroppedSwitched: 2, DroppedInterrupted: 4})
	const want = "4 came while the kernel ran bperf's own program on that CPU, 3 slept or were preempted"
	if sum.Total() != 7 || sum.String() != want {
		t.Errorf("%d: %v", sum.Total(), &sum)
	}
	sum.Sub(&Dropped{DroppedSwitched: 2, DroppedNested: 1})
	if sum != (Dropped{DroppedSwitched: 1, DroppedInterrupted: 4}) {
		t.Errorf("%v", sum)
	}
	if none := new(Dropped); none.String() != "" || none.Total() != 0 {
		t.Errorf("%v", none)
	}
}
