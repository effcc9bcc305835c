package main

// fleet are sessions that count the same events of the same target, in the order in which they were started.
type fleet []*session

// each calls do for every session, one after another.
func (f fleet) each(do func(*session) error) error {
	for _, s := range f {
		if err := do(s); err != nil {
			return err
		}
	}
	return nil
}

// during lets all sessions count while do runs. The sessions' processes are stopped during do. during enables the sessions one after
// another, and disables them in the same order, so that all count for about the same time.
func (f fleet) during(do func() error) error {
	if err := f.each(func(s *session) error { return s.command("enable") }); err != nil {
		return err
	}
	if err := f.each((*session).freeze); err != nil {
		return err
	}
	settle() // starting the sessions may have left work behind
	if err := do(); err != nil {
		return err
	}
	if err := f.each((*session).thaw); err != nil {
		return err
	}
	return f.each(func(s *session) error { return s.command("disable") })
}

// end ends the sessions and adds their counts to the outcome.
func (f fleet) end(o *outcome) {
	for _, s := range f {
		o.add(s.end())
	}
}
