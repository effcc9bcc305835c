package target

import (
	"strings"
	"testing"
)

func TestParseUevent(t *testing.T) {
	lines := func(s ...string) []byte { return []byte(strings.Join(s, "\x00") + "\x00") }
	const head, path, cpu = "online@/devices/system/cpu/cpu12", "DEVPATH=/devices/system/cpu/cpu12", "SUBSYSTEM=cpu"
	for _, tt := range []struct {
		message []byte
		want    CPUChange
		ok      bool
	}{
		{lines(head, "ACTION=online", path, cpu, "DRIVER=processor", "SEQNUM=1234"), CPUChange{1234, 12, true}, true},
		{lines("offline@/x", "ACTION=offline", path, cpu, "SEQNUM=7"), CPUChange{7, 12, false}, true},
		{message: lines("x", "ACTION=add", path, cpu, "SEQNUM=1")},
		{message: lines("x", "ACTION=online", path, "SUBSYSTEM=memory", "SEQNUM=1")},
		{message: lines("x", "ACTION=online", "DEVPATH=/devices/system/cpu/cpu", cpu, "SEQNUM=1")},
		{message: lines("x", "ACTION=online", path, cpu)},
		{message: lines("x", "ACTION=online", path, cpu, "SEQNUM=many")},
		{message: nil},
	} {
		got, ok := parseUevent(tt.message)
		if ok != tt.ok || ok && got != tt.want {
			t.Errorf("%q: got %+v, %v, want %+v, %v", tt.message, got, ok, tt.want, tt.ok)
		}
	}
}

func FuzzParseUevent(f *testing.F) {
	f.Add([]byte("online@/devices/system/cpu/cpu1\x00ACTION=online\x00DEVPATH=/devices/system/cpu/cpu1\x00SUBSYSTEM=cpu\x00SEQNUM=1\x00"))
	f.Fuzz(func(t *testing.T, message []byte) { parseUevent(message) })
}
