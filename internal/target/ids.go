package target

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ParseIDs parses a list of process or thread IDs in the form of -p and -t: "12,7". It keeps their order, and rejects duplicates.
func ParseIDs(list string) ([]int, error) {
	if strings.TrimSpace(list) == "" {
		return nil, fmt.Errorf("ID list %q: the list is empty", list)
	}
	var ids []int
	for item := range strings.SplitSeq(list, ",") {
		id, err := strconv.ParseUint(strings.TrimSpace(item), 10, 31)
		if err != nil || id == 0 {
			return nil, fmt.Errorf("ID list %q: %q is not a number from 1 to %d", list, item, math.MaxInt32)
		}
		if slices.Contains(ids, int(id)) {
			return nil, fmt.Errorf("ID list %q: %d is listed twice", list, id)
		}
		ids = append(ids, int(id))
	}
	return ids, nil
}
