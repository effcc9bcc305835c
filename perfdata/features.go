package perfdata

import (
	"maps"
	"slices"
)

// Features are the features of a recording.
type Features struct {
	raw map[FeatureID][]byte
	big bool
}

// IDs of the features that there are, ascending.
func (f *Features) IDs() []FeatureID { return slices.Sorted(maps.Keys(f.raw)) }

// Raw is a feature as it is in the file, in the file's byte order; false if there is none.
func (f *Features) Raw(id FeatureID) ([]byte, bool) {
	b, there := f.raw[id]
	return b, there
}

// Get decodes a feature: the type of the value is the one beside the feature's ID. It is nil, without an error, if there is none. With an
// error it is nil, too, but for FeatureBuildID: then it has what stands in front of what cannot be read.
func (f *Features) Get(id FeatureID) (FeatureValue, error) {
	b, there := f.raw[id]
	if !there {
		return nil, nil
	}
	var cpus NRCPUs
	if id == FeatureCPUTopology {
		v, err := f.Get(FeatureNRCPUs)
		if err != nil {
			return nil, err
		}
		cpus, _ = v.(NRCPUs)
	}
	return decodeFeature(id, b, f.big, cpus.Available)
}

// Text is a feature of the type Text; empty if there is none or it cannot be decoded.
func (f *Features) Text(id FeatureID) string {
	v, _ := f.Get(id)
	t, _ := v.(Text)
	return string(t)
}

// with returns features that have one more, or another in its place.
func (f *Features) with(id FeatureID, b []byte) *Features {
	raw := maps.Clone(f.raw)
	if raw == nil {
		raw = map[FeatureID][]byte{}
	}
	raw[id] = b
	return &Features{raw: raw, big: f.big}
}
