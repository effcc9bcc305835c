package shared

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cilium/ebpf"
)

// description is the content of a token: a session's description of itself.
type description struct {
	PID     int      `json:"pid"`
	Command []string `json:"command"`
	Target  string   `json:"target"`
}

// tokenName is the name of a token, the map that only its session keeps open.
const tokenName = "bperf_session"

const tokenSize = 4096

func newToken(d description) (*ebpf.Map, error) {
	text, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	if len(text) > tokenSize {
		d.Command = d.Command[:1]
		if text, err = json.Marshal(d); err != nil {
			return nil, err
		}
	}
	value := make([]byte, tokenSize)
	copy(value, text)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: tokenName, Type: ebpf.Array, KeySize: 4, ValueSize: tokenSize, MaxEntries: 1})
	if err != nil {
		return nil, fmt.Errorf("create the map of this session: %w%s", err, permission(err))
	}
	if err := m.Put(uint32(0), value); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// tokenLives reports whether the process that made a token still has it.
func tokenLives(id uint32) bool {
	m, err := ebpf.NewMapFromID(ebpf.MapID(id))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	defer m.Close()
	info, err := m.Info()
	return err == nil && info.Name == tokenName
}

// describe reads a token.
func describe(id uint32) (d description, err error) {
	m, err := ebpf.NewMapFromID(ebpf.MapID(id))
	if err != nil {
		return d, err
	}
	defer m.Close()
	var value []byte
	if err := m.Lookup(uint32(0), &value); err != nil {
		return d, err
	}
	return d, json.Unmarshal(bytes.TrimRight(value, "\x00"), &d)
}
