package main

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOutcome(t *testing.T) {
	lost := errors.New("no trampoline is left")
	tests := []struct {
		name     string
		sessions []counts // nil for a session that failed
		want     []float64
		failure  error
	}{
		{"multiplexed", []counts{
			{{"cycles", 100, 100, true}, {"instructions", 50, 40, true}},
			{{"cycles", 101, 90, true}, {"instructions", 40, 20, true}},
			{{"cycles", 102, 100, true}, {"instructions", 0, 0, false}},
		}, []float64{2, 0, 100, 20}, nil},
		{"nothing happened", []counts{{{"cycles", 0, 100, true}}}, []float64{1, 100, 100, 0}, nil},
		{"one failed", []counts{{{"cycles", 7, 100, true}}, nil}, []float64{1, 0, 100, 0}, lost},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var o outcome
			for _, c := range tt.sessions {
				if c == nil {
					o.add(nil, lost)
					continue
				}
				o.add(c, nil)
			}
			least, most := o.running()
			got := []float64{float64(o.counting()), least, most, o.spread()}
			if diff := cmp.Diff(tt.want, got); diff != "" || o.failure != tt.failure {
				t.Errorf("counting, least running, most running, spread: -want +got:\n%s, failure %v", diff, o.failure)
			}
		})
	}
}
