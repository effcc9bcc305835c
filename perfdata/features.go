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

// IDs returns the IDs of the features that are present, in ascending order.
func (f *Features) IDs() []FeatureID { return slices.Sorted(maps.Keys(f.raw)) }

// Raw returns the undecoded bytes of a feature, in the file's byte order. It returns false if the feature is absent.
func (f *Features) Raw(id FeatureID) ([]byte, bool) {
	b, there := f.raw[id]
	return b, there
}

// Get decodes a feature. The comment of each FeatureID constant names the type of its value. Get returns nil without an error if the feature
// is absent. On an error the value is nil, except for FeatureBuildID: its value has the entries before the damaged one.
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

// Text returns a feature whose value is of type Text. It returns "" if the feature is absent or cannot be decoded.
func (f *Features) Text(id FeatureID) string {
	v, _ := f.Get(id)
	t, _ := v.(Text)
	return string(t)
}

// with returns a copy of f in which feature id is b.
func (f *Features) with(id FeatureID, b []byte) *Features {
	raw := maps.Clone(f.raw)
	if raw == nil {
		raw = map[FeatureID][]byte{}
	}
	raw[id] = b
	return &Features{raw: raw, big: f.big}
}
