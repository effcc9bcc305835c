package kernel

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// SwitchHasState reports whether the tracepoint sched_switch has an argument with the state of the task that leaves the CPU (Linux 5.18).
func SwitchHasState(cache *btf.Cache) (bool, error) {
	types, err := cache.Kernel()
	if err != nil {
		return false, err
	}
	var def *btf.Typedef
	if err := types.TypeByName("btf_trace_sched_switch", &def); err != nil {
		return false, err
	}
	pointer, ok := def.Type.(*btf.Pointer)
	if !ok {
		return false, fmt.Errorf("btf_trace_sched_switch is a %v", def.Type)
	}
	proto, ok := pointer.Target.(*btf.FuncProto)
	if !ok {
		return false, fmt.Errorf("btf_trace_sched_switch is a pointer to %v", pointer.Target)
	}
	const withState = 5 // context, preempt, prev, next, prev_state
	return len(proto.Params) >= withState, nil
}
