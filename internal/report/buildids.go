package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/bperf/bperf/internal/printable"
	"github.com/bperf/bperf/internal/replay"
	"github.com/bperf/bperf/perfdata"
)

// BuildID is the build ID of a file.
type BuildID struct {
	ID   []byte // nil if it is unknown
	File string
}

// WriteBuildIDs writes a line for each file, sorted by file, in the format of perf buildid-list.
func WriteBuildIDs(w io.Writer, all []BuildID) error {
	slices.SortFunc(all, func(a, b BuildID) int { return cmp.Or(strings.Compare(a.File, b.File), slices.Compare(a.ID, b.ID)) })
	same := func(a, b BuildID) bool { return a.File == b.File && slices.Equal(a.ID, b.ID) }
	var text strings.Builder
	for _, b := range slices.CompactFunc(all, same) {
		fmt.Fprintf(&text, "%-40x %s\n", b.ID, printable.Text(b.File))
	}
	_, err := io.WriteString(w, text.String())
	return err
}

// HeaderBuildIDs returns the build IDs in the header of a recording. It returns false if the header has none, as in pipes. The error can come
// with the build IDs that precede what could not be read.
func HeaderBuildIDs(r *perfdata.Reader) ([]BuildID, bool, error) {
	value, err := r.Features().Get(perfdata.FeatureBuildID)
	list, there := value.(perfdata.BuildIDs)
	var all []BuildID
	for _, b := range list {
		all = append(all, BuildID{b.BuildID, b.Filename})
	}
	return all, there || err != nil, err
}

// HitBuildIDs returns the build IDs of the files that samples hit, with their instruction pointer or with a caller. It reads the recording to
// its end.
func HitBuildIDs(r *perfdata.Reader) ([]BuildID, replay.Stats, error) {
	played := replay.New(r, replay.Options{NoNames: true})
	defer played.Close()
	var hits []map[*replay.DSO]bool // of each handler
	err := played.Run(func(resolver *replay.Resolver) replay.Handler {
		hit := map[*replay.DSO]bool{}
		hits = append(hits, hit)
		return func(items []replay.Item, out []byte) []byte {
			for i := range items {
				markHits(resolver, &items[i], hit)
			}
			return out
		}
	}, io.Discard)
	var all []BuildID
	for _, hit := range hits {
		for d := range hit {
			all = append(all, BuildID{d.BuildID, d.Path})
		}
	}
	return all, played.Stats(), err
}

func markHits(resolver *replay.Resolver, item *replay.Item, hit map[*replay.DSO]bool) {
	if item.Sample == nil {
		return
	}
	if d := resolver.IP(item).DSO; d != nil {
		hit[d] = true
	}
	chain, _ := resolver.Callchain(item)
	for _, frame := range chain {
		if frame.DSO != nil {
			hit[frame.DSO] = true
		}
	}
}
