// Guest is what runs in a guest of a fleet: pods, and bperf serve.
//
//	guest PODS CONFIGURATION
//
// PODS is a file with a list of pods in JSON.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"syscall"

	"github.com/bperf/bperf/test/fleet/pod"
)

// Pod is a pod and what its container does.
type Pod struct {
	pod.Pod
	Pages int // that it touches in a round
}

func main() {
	pod.WorkIfAsked()
	runtime.LockOSThread() // bperf takes the place of this thread, and the pods end with it
	fmt.Fprintln(os.Stderr, "guest:", run(os.Args[1], os.Args[2]))
	os.Exit(1)
}

// run returns only if it fails.
func run(pods, configuration string) error {
	b, err := os.ReadFile(pods)
	if err != nil {
		return err
	}
	var all []Pod
	if err := json.Unmarshal(b, &all); err != nil {
		return err
	}
	for _, p := range all {
		if err := p.start(); err != nil {
			return fmt.Errorf("start %s: %w", p.Name, err)
		}
	}
	return syscall.Exec("/bin/bperf", []string{"bperf", "serve", "--config", configuration}, os.Environ())
}

// burstable is the path without its ending of the slice of pods that may use more than they request.
const burstable = "/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/kubepods-burstable"

func (p *Pod) start() error {
	_, scope := p.Cgroups(burstable)
	if err := os.MkdirAll(scope, 0o755); err != nil {
		return err
	}
	if err := p.AddNames("/var/log"); err != nil {
		return err
	}
	_, err := pod.Start(scope, p.Pages)
	return err
}
