package main

// fleet are sessions that count the same, in the order they were started.
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

// during has all sessions count while do runs, in which they cannot run themselves. They are told one after another,
// and in the same order to stop, so that all count for about as long.
func (f fleet) during(do func() error) error {
	if err := f.each(func(s *session) error { return s.command("enable") }); err != nil {
		return err
	}
	if err := f.each((*session).freeze); err != nil {
		return err
	}
	settle() // what started the sessions may have left work behind
	if err := do(); err != nil {
		return err
	}
	if err := f.each((*session).thaw); err != nil {
		return err
	}
	return f.each(func(s *session) error { return s.command("disable") })
}

// end ends the sessions and adds to the outcome what each counted.
func (f fleet) end(o *outcome) {
	for _, s := range f {
		o.add(s.end())
	}
}
