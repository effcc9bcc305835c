package replay

import (
	"reflect"
	"strings"
	"testing"
)

func TestSum(t *testing.T) {
	for _, want := range []Sum{
		{},
		{Count: 1 << 60, Interval: 7, Comm: "a b", Tags: []SumTag{{"state", "R"}, {"", ""}, {"priority", "120"}}},
	} {
		encoded := want.Append(nil)
		got, err := decodeSum(append(encoded, 0, 0, 0))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v became %+v, %v", want, got, err)
		}
		for n := range encoded {
			if got, err := decodeSum(encoded[:n]); err == nil {
				t.Errorf("%d bytes of %d are taken for %+v", n, len(encoded), got)
			}
		}
	}
}

func TestContainers(t *testing.T) {
	id := strings.Repeat("0123456789abcdef", 4)
	for cgroup, want := range map[string]string{
		"/docker/" + id: id[:12], "/system.slice/docker-" + id + ".scope": id[:12],
		"/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope/child": id[:12],
		"/": "", "": "", "/user.slice/session-1.scope": "", "/docker/" + id[1:]: "", "/x/" + id + "0": "",
	} {
		if got := containerOf(cgroup); got != want {
			t.Errorf("%s: %q, want %q", cgroup, got, want)
		}
	}
}
