package eventfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Limits of a file. The largest model of the kernel's has 6,100 entries in all its files, and the longest value has 2,300 bytes.
const (
	maxEntries = 1 << 17
	maxValue   = 1 << 16
)

// byteOrderMark begins some of perfmon's files.
var byteOrderMark = []byte("\xef\xbb\xbf")

// Decode returns the entries of a file: of a list in the kernel's format, or of one of perfmon's, which is the "Events" of an object, and
// in old files the whole. Entries of perfmon's are translated to the kernel's keys; Decode leaves out those that the kernel's drivers
// cannot count by what the file says. Other objects have no entries: in the kernel's files, they describe groups of metrics.
func Decode(data []byte) ([]Entry, error) {
	d := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(data, byteOrderMark)))
	d.UseNumber()
	start, err := d.Token()
	if err != nil {
		return nil, syntax(d, err)
	}
	var all []Entry
	switch start {
	case json.Delim('['):
		all, err = decodeList(d, false)
	case json.Delim('{'):
		all, err = decodePerfmon(d)
	default:
		err = fmt.Errorf("it is neither a list of events nor an object with one")
	}
	if err != nil {
		return nil, syntax(d, err)
	}
	return all, nil
}

// syntax adds the place to an error of JSON.
func syntax(d *json.Decoder, err error) error {
	var wrong *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("it ends in the middle of its JSON, after %d bytes", d.InputOffset())
	case errors.As(err, &wrong):
		return fmt.Errorf("it is no JSON: %w after %d bytes", err, d.InputOffset())
	}
	return err
}

// decodeList decodes a list whose start was read. If it is not known to be perfmon's, entries are if they have a key of perfmon's.
func decodeList(d *json.Decoder, perfmon bool) ([]Entry, error) {
	var all []Entry
	n := 0
	for d.More() {
		if n++; n > maxEntries {
			return nil, fmt.Errorf("it has more than %d entries", maxEntries)
		}
		e, err := decodeEntry(d)
		if err != nil {
			return nil, err
		}
		if !perfmon && !e.isPerfmon() || e.fromPerfmon() {
			all = append(all, e)
		}
	}
	_, err := d.Token() // the end
	return all, err
}

// decodePerfmon decodes an object of perfmon's whose start was read.
func decodePerfmon(d *json.Decoder) ([]Entry, error) {
	var all []Entry
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		if key != "Events" {
			if err := skip(d); err != nil {
				return nil, err
			}
			continue
		}
		value, err := d.Token()
		switch {
		case err != nil:
			return nil, err
		case value == json.Delim('{'):
			return nil, fmt.Errorf("its \"Events\" are an object, not a list")
		case value != json.Delim('['):
			continue // the description of a group of metrics of this name
		}
		if all, err = decodeList(d, true); err != nil {
			return nil, err
		}
	}
	_, err := d.Token() // the end
	return all, err
}

// decodeEntry decodes an object. It keeps the values of keys that have a meaning here.
func decodeEntry(d *json.Decoder) (Entry, error) {
	start, err := d.Token()
	if err != nil {
		return nil, err
	}
	if start != json.Delim('{') {
		return nil, fmt.Errorf("its list has %v before byte %d, where the object of an event should be", start, d.InputOffset())
	}
	e := Entry{}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := token.(string) // it always is one
		if !keys[key] {
			if err := skip(d); err != nil {
				return nil, err
			}
			continue
		}
		if e[key], err = decodeValue(d); err != nil {
			return nil, fmt.Errorf("%s before byte %d: %w", key, d.InputOffset(), err)
		}
	}
	_, err = d.Token() // the end
	return e, err
}

func skip(d *json.Decoder) error {
	var skipped json.RawMessage
	return d.Decode(&skipped)
}

// decodeValue decodes a text or a number. The text of null is empty.
func decodeValue(d *json.Decoder) (string, error) {
	var raw json.RawMessage
	if err := d.Decode(&raw); err != nil {
		return "", err
	}
	switch {
	case len(raw) > maxValue:
		return "", fmt.Errorf("the value has more than %d bytes", maxValue)
	case raw[0] == '{' || raw[0] == '[':
		return "", fmt.Errorf("the value is neither text nor a number")
	case raw[0] == '"':
		var text string
		err := json.Unmarshal(raw, &text)
		return text, err
	case string(raw) == "null":
		return "", nil
	}
	return string(raw), nil
}

// keys are those that Entry keeps.
var keys = func() map[string]bool {
	all := map[string]bool{}
	for _, key := range []string{
		"EventName", "EventCode", "ExtSel", "ConfigCode", "LegacyConfigCode", "EventidCode", "Filter", "MSRIndex", "MSRValue", "SampleAfterValue",
		"Unit", "PerPkg", "ScaleUnit", "Deprecated", "Errata", "Compat", "ArchStdEvent", "BriefDescription", "PublicDescription",
		"MetricName", "MetricExpr", "MetricGroup", "MetricgroupNoGroup", "MetricThreshold", "MetricConstraint", "DefaultMetricgroupName",
		"DefaultShowEvents", "AggregationMode",
		// Perfmon only, except Counter.
		"Counter", "UMaskExt", "FILTER_VALUE", "CounterType", "Description", perfmonsKey,
	} {
		all[key] = true
	}
	for _, of := range numbers {
		all[of[0]] = true
	}
	return all
}()
