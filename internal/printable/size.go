package printable

import "strconv"

// PageSize returns the size of a page in perf's form: 4K, 2M. 1 GiB is 1024M, and an unknown size, 0, is N/A.
func PageSize(bytes uint64) string {
	if bytes == 0 {
		return "N/A"
	}
	const units = "BKMG"
	unit := 0
	for ; bytes/1024 > 1 && unit < len(units)-1; unit++ {
		bytes /= 1024
	}
	return strconv.FormatUint(bytes, 10) + units[unit:unit+1]
}
