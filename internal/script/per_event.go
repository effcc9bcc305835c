package script

import (
	"encoding/binary"
	"io"

	"github.com/bperf/bperf/internal/replay"
)

// EventOutput is where the samples of one event are printed.
type EventOutput struct {
	io.Writer
	Samples uint64 // number of samples that were printed
}

// frameHeader precedes what a handler prints of one item: the index of its event, and the number of bytes.
const frameHeader = 8

// noEvent is the index of items that are not samples of an event.
const noEvent = ^uint32(0)

// framed returns a handler that puts a header before what h prints of each item.
func framed(h replay.Handler) replay.Handler {
	return func(items []replay.Item, out []byte) []byte {
		for i := range items {
			start := len(out)
			out = h(items[i:i+1], append(out, make([]byte, frameHeader)...))
			size, index := len(out)-start-frameHeader, noEvent
			if size == 0 {
				out = out[:start]
				continue
			}
			if e := items[i].Event; e != nil && items[i].Sample != nil {
				index = uint32(e.Index)
			}
			binary.NativeEndian.PutUint32(out[start:], index)
			binary.NativeEndian.PutUint32(out[start+4:], uint32(size))
		}
		return out
	}
}

// eventWriter writes what framed handlers print to the outputs of the events, and the rest to another writer.
type eventWriter struct {
	events []*EventOutput // by Event.Index
	rest   io.Writer
}

func (w eventWriter) Write(frames []byte) (int, error) {
	total := len(frames)
	for len(frames) > 0 {
		index, size := binary.NativeEndian.Uint32(frames), binary.NativeEndian.Uint32(frames[4:])
		text := frames[frameHeader : frameHeader+size]
		frames = frames[frameHeader+size:]
		to := w.rest
		if index < uint32(len(w.events)) {
			to = w.events[index]
			w.events[index].Samples++
		}
		if _, err := to.Write(text); err != nil {
			return 0, err
		}
	}
	return total, nil
}
