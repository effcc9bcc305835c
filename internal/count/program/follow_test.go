package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/bperf/bperf/internal/bpfprog"
	"github.com/bperf/bperf/internal/event"
	"github.com/bperf/bperf/internal/target"
)

// TestComeAndGo adds a program while the counter is enabled. The program can be unloaded, and its counts stay, even if the kernel does not
// allow tracing it.
func TestComeAndGo(t *testing.T) {
	for name, function := range map[string]string{"traced": "loop", "untraced": ""} {
		t.Run(name, func(t *testing.T) {
			c := openFor(t, Options{Following: true}, "cpu-clock")
			check(t, c.Enable())
			prog, target := loadLoop(t, 1)
			target.Function = function
			for _, want := range []bool{true, false} {
				if added, err := c.Add([]Target{target}); err != nil || added != want {
					t.Fatalf("added: %v, %v; want %v", added, err, want)
				}
			}
			run(t, prog, 5)
			check(t, c.LetGo()) // the test keeps it open
			run(t, prog, 5)
			if c.programs[0].kernel != nil {
				check(t, c.LetGo()) // reads its statistics
			}
			prog.Close()
			gone := func() bool {
				p, err := ebpf.NewProgramFromID(ebpf.ProgramID(target.ID))
				if err == nil {
					p.Close()
				}
				return errors.Is(err, fs.ErrNotExist)
			}
			for deadline := time.Now().Add(time.Minute); !gone(); time.Sleep(5 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the program is not unloaded")
				}
				check(t, c.LetGo())
			}
			if r := read(t, c, 0); r.runs != 10 || r.time == 0 {
				t.Errorf("%+v, want 10 runs", r)
			}
			check(t, c.Disable())
			check(t, c.Enable())
			check(t, c.Disable())
			if r := read(t, c, 0); r.runs != 10 {
				t.Errorf("%+v, want 10 runs", r)
			}
			if added, err := c.Add([]Target{{ID: 1<<31 - 1, Name: "gone", Function: "gone", JITed: true}}); err != nil || added {
				t.Errorf("a program that has gone was added: %v, %v", added, err)
			}
		})
	}
}

// TestGone selects a program that is unloaded before Open. That is an error only if it was selected by its ID, or if there is no other.
func TestGone(t *testing.T) {
	_, there := loadLoop(t, 1)
	for _, function := range []string{"loop", ""} {
		gone := Target{ID: 1<<31 - 1, Name: "gone", Function: function, JITed: true}
		byID := gone
		byID.ByID = true
		for _, tt := range []struct {
			programs []Target
			counted  int // 0 for an error
		}{
			{[]Target{gone, there}, 1},
			{[]Target{byID, there}, 0},
			{[]Target{gone, gone}, 0},
		} {
			list, err := event.Host().Parse("cpu-clock")
			check(t, err)
			at, err := target.Spec{System: true}.Resolve()
			check(t, err)
			c, err := openWith(list, tt.programs, at, Options{}, types())
			if tt.counted == 0 {
				if !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%v: %v, want that it does not exist", tt.programs, err)
				}
				continue
			}
			check(t, err)
			if n := len(c.Targets()); n != tt.counted {
				t.Errorf("%v: %d programs are counted, want %d", tt.programs, n, tt.counted)
			}
			check(t, c.Close())
		}
	}
}

// TestFollow gets the programs that match when they are loaded, and no others.
func TestFollow(t *testing.T) {
	own := fmt.Sprintf("f%d", time.Now().UnixNano()%1e9)
	selector, err := bpfprog.Parse("name:" + own)
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	found, wait, err := Selection{Programs: selector, Functions: "*"}.Follow(ctx)
	if errors.Is(err, fs.ErrPermission) {
		t.Skip(err)
	}
	check(t, err)
	loadLoop(t, 1)
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: own, Type: ebpf.SocketFilter, License: "GPL", Instructions: loopNamed(own, 1)})
	check(t, err)
	defer p.Close()
	info, err := p.Info()
	check(t, err)
	id, _ := info.ID()
	select {
	case targets := <-found:
		if len(targets) != 1 || targets[0].ID != uint32(id) || targets[0].Function != own || !targets[0].ByFunction {
			t.Errorf("%+v, want program %d", targets, id)
		}
	case <-ctx.Done():
		t.Error("nothing was found")
	}
	cancel()
	if _, open := <-found; open {
		t.Error("more was found")
	}
	check(t, wait())
}

// TestProbesAreNotSelected selects the probes of sessions only by their IDs.
func TestProbesAreNotSelected(t *testing.T) {
	loaded := []*bpfprog.Program{
		{ID: 1, Type: bpfprog.Type(ebpf.Tracing), Name: probesProgBperfEntry}, {ID: 2, Type: bpfprog.Type(ebpf.Tracing), Name: probesProgBperfExit},
		{ID: 3, Type: bpfprog.Type(ebpf.SocketFilter), Name: emptyName}, {ID: 4, Type: bpfprog.Type(ebpf.XDP), Name: probesProgBperfEntry},
		{ID: 5, Type: bpfprog.Type(ebpf.Tracing), Name: referencesProgBperfRefs},
	}
	for list, want := range map[string]string{"all": "[4]", "name:bperf_*": "[4]", "2,all": "[2 4]", "5": "[5]"} {
		selector, err := bpfprog.Parse(list)
		check(t, err)
		targets, _ := Selection{Programs: selector}.among(loaded)
		var ids []uint32
		for _, p := range targets {
			ids = append(ids, p.ID)
		}
		if got := fmt.Sprint(ids); got != want {
			t.Errorf("%s: %s, want %s", list, got, want)
		}
	}
}
