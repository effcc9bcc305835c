package replay

// symbolize finds the symbol of a location, the functions inlined there and its line.
func (r *Replay) symbolize(l *Location) {
	if l.DSO.names == nil {
		return
	}
	if s, ok := l.DSO.names.symbol(l.Addr); ok {
		l.Symbol = &s
	}
}
