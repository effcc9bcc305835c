package profile

import (
	"errors"
	"slices"
)

// Merge adds the samples and losses of another profile, which stays as it is. Both must have the same keys and events.
func (p *Profile) Merge(from *Profile) error {
	if p.keep != from.keep {
		return errors.New("merge profiles: their samples are told apart by different keys")
	}
	sameEvent := func(a, b Event) bool { return a.Name == b.Name && a.Leader == b.Leader }
	if !slices.EqualFunc(p.Events, from.Events, sameEvent) {
		return errors.New("merge profiles: they are of different events")
	}
	m := newMapping(p, from)
	for _, s := range from.Samples() {
		s.Labels, s.Leaf, s.Stack, s.Target = m.labels[s.Labels], m.frames[s.Leaf], m.stacks[s.Stack], m.frames[s.Target]
		p.add(s)
	}
	p.Losses.add(from.Losses)
	return nil
}

// mapping has, for each number of one profile, that of another for the same thing.
type mapping struct {
	frames []FrameID
	labels []LabelsID
	stacks []StackID
}

// newMapping stores in one profile all that another refers to.
func newMapping(to, from *Profile) mapping {
	strings := translate(&to.Strings, from.Strings.All(), func(s string) string { return s })
	modules := translate(&to.Modules, from.Modules.All(), func(m Module) Module {
		m.Path, m.Name, m.BuildID = strings[m.Path], strings[m.Name], strings[m.BuildID]
		return m
	})
	programs := translate(&to.Programs, from.Programs.All(), func(p Program) Program {
		p.Name, p.Tag, p.Type = strings[p.Name], strings[p.Tag], strings[p.Type]
		return p
	})
	functions := translate(&to.Functions, from.Functions.All(), func(f Function) Function {
		f.Name, f.Linkage, f.File = strings[f.Name], strings[f.Linkage], strings[f.File]
		f.Module, f.Program = modules[f.Module], programs[f.Program]
		return f
	})
	tags := make([]TagsID, len(from.Tags.All()))
	for id, tag := range from.Tags.All() { // what follows a tag in its list was stored before it
		tags[id] = to.Tags.ID(Tag{Key: strings[tag.Key], Value: strings[tag.Value], Next: tags[tag.Next]})
	}
	frames := translate(&to.frames, from.Frames(), func(f Frame) Frame {
		f.Function, f.Module, f.File = functions[f.Function], modules[f.Module], strings[f.File]
		return f
	})
	labels := translate(&to.labels, from.Labels(), func(l Labels) Labels {
		l.Comm, l.Cgroup, l.Tags = strings[l.Comm], strings[l.Cgroup], tags[l.Tags]
		return l
	})
	stacks := make([]StackID, len(from.Stacks.All()))
	for id, s := range from.Stacks.All()[1:] {
		stacks[id+1] = to.Stacks.Push(stacks[s.Caller], frames[s.Frame])
	}
	return mapping{frames, labels, stacks}
}

// translate stores values in a table, after their numbers have been replaced, and returns the new numbers by the old ones.
func translate[ID ~uint32, T comparable](to *Table[ID, T], values []T, replace func(T) T) []ID {
	ids := make([]ID, len(values))
	for i, v := range values {
		ids[i] = to.ID(replace(v))
	}
	return ids
}

func (l *Losses) add(from Losses) {
	l.Records += from.Records
	l.Samples += from.Samples
	l.Filtered += from.Filtered
	l.Truncated += from.Truncated
	for _, loss := range from.Reasons {
		at := slices.IndexFunc(l.Reasons, func(o Loss) bool { return o.Reason == loss.Reason })
		if at < 0 {
			l.Reasons = append(l.Reasons, loss)
			continue
		}
		l.Reasons[at].Samples += loss.Samples
	}
}
