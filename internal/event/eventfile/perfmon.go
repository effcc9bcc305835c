package eventfile

import (
	"fmt"
	"strconv"
	"strings"
)

// perfmonUnits are the units for which the kernel's files have another name.
var perfmonUnits = map[string]string{"SBO": "SBOX", "QPI LL": "QPI", "UPI LL": "UPI"}

// fixedCode is the event code with which the kernel's uncore drivers count on a fixed counter (UNCORE_FIXED_EVENT in
// arch/x86/events/intel/uncore.h).
const fixedCode = "0xff"

// perfmonsKey is one that all events of perfmon's have, except those of some new files, and none of the kernel's.
const perfmonsKey = "ELLC"

// isPerfmon reports whether the entry has a key that only perfmon's have.
func (e Entry) isPerfmon() bool {
	_, ok := e[perfmonsKey]
	return ok
}

// fromPerfmon translates an entry of perfmon's to what the kernel's files have. It reports whether the kernel's drivers can count the event
// by what the entry says: they find free-running counters by numbers that the entry does not have, and filters of some boxes need more than
// a term.
func (e Entry) fromPerfmon() bool {
	for key, value := range e {
		value = strings.TrimSpace(value)
		switch strings.ToLower(value) {
		case "na", "null", "tbd":
			value = ""
		case "0":
			if key == "Errata" || key == "Filter" {
				value = ""
			}
		}
		e[key] = value
	}
	if e["BriefDescription"] == "" {
		e["BriefDescription"] = e["Description"]
	}
	e["EventName"] = perfmonName(e["EventName"])
	e.extendUMask()
	if e["Unit"] == "" {
		return true
	}
	e["PerPkg"] = "1"
	e["Unit"] = strings.TrimSpace(e["Unit"])
	if unit := perfmonUnits[e["Unit"]]; unit != "" {
		e["Unit"] = unit
	}
	switch {
	case strings.EqualFold(e["CounterType"], "FREERUN"):
		return false
	case strings.EqualFold(e["Counter"], "fixed"):
		e["EventCode"] = fixedCode
		delete(e, "UMask")
	case e["Unit"] == "PCU":
		delete(e, "UMask") // it is the number of a filter's byte
	}
	return e.translateFilter()
}

// perfmonName returns the name that the kernel's files give an event.
func perfmonName(name string) string {
	if rest, ok := strings.CutPrefix(name, "OFFCORE_RESPONSE_0"); ok {
		return "OFFCORE_RESPONSE" + rest
	}
	if rest, ok := strings.CutPrefix(name, "OFFCORE_RESPONSE:request="); ok {
		if request, response, ok := strings.Cut(rest, ":response="); ok {
			return "OFFCORE_RESPONSE." + request + "." + response
		}
	}
	return name
}

// extendUMask adds UMaskExt, the bits above the 8 of UMask. An error of a number is found where the number is used.
func (e Entry) extendUMask() {
	first, _, _ := strings.Cut(e["UMask"], ",")
	ext, err := strconv.ParseUint(e["UMaskExt"], 0, 32)
	umask, umaskErr := strconv.ParseUint(strings.TrimSpace(first), 0, 8)
	if err == nil && umaskErr == nil && ext != 0 {
		e["UMask"] = fmt.Sprintf("%#x", ext<<8|umask)
	}
}

// translateFilter makes terms of the filter. It reports false for filters without which the event would count something else.
func (e Entry) translateFilter() bool {
	filter := strings.ToLower(e["Filter"])
	for _, prefix := range []string{"ha_addrmatch", "ha_opcodematch", "irpfilter"} {
		if strings.HasPrefix(filter, prefix) {
			return false
		}
	}
	delete(e, "Filter")
	if filter == "filter1" && e["FILTER_VALUE"] != "" {
		e["Filter"] = "config1=" + e["FILTER_VALUE"]
	}
	return true
}
