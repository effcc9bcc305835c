package perfdata

import "testing"

// TestDataSourceWords compares values as the kernel makes them (include/uapi/linux/perf_event.h) with perf's words for them.
func TestDataSourceWords(t *testing.T) {
	for d, want := range map[DataSource]string{
		0:                                   "|OP N/A|LVL N/A|SNP N/A|TLB N/A|LCK No|BLK N/A",
		DataSourceNA:                        "|OP N/A|LVL N/A|SNP N/A|TLB N/A|LCK N/A|BLK N/A",
		2 | (2|8)<<5 | 2<<19 | (2|8|16)<<26: "|OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK N/A",
		1<<40 | 2<<40:                       "|OP N/A|LVL N/A|SNP N/A|TLB N/A|LCK No|BLK N/A",
		4 | 3<<33 | 1<<37 | 2<<43 | 16<<19 | 2<<24 | 2<<40: "|OP STORE|LVL Remote node, same socket L3 |SNP HitM|TLB N/A|LCK Yes|BLK  Data",
	} {
		if got := string(d.AppendWords(nil)); got != want {
			t.Errorf("%#x is %q, want %q", uint64(d), got, want)
		}
	}
}
