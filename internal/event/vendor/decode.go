package vendor

import "fmt"

// Decode returns all tables of an archive that Encode made, by the names of their models. The tests of packages that use tables read those of
// other architectures with it.
func Decode(data []byte) (map[string]*Table, error) {
	a, err := openArchive(data)
	if err != nil {
		return nil, err
	}
	tables := make(map[string]*Table)
	for name := range a.frames {
		text, err := a.text(name)
		if err != nil {
			return nil, err
		}
		t := &Table{}
		if err := t.parse(text); err != nil {
			return nil, fmt.Errorf("the table of %s: %w", name, err)
		}
		tables[name] = New(t.events, t.metrics)
	}
	return tables, nil
}
