package record

import (
	"os"
	"syscall"

	"github.com/bperf/bperf/perfdata"
)

// namespaceLink is the file in nsfs behind a link; zero if there is none, or it may not be seen.
func namespaceLink(name string) perfdata.NamespaceLink {
	info, err := os.Stat(name)
	if err != nil {
		return perfdata.NamespaceLink{}
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return perfdata.NamespaceLink{}
	}
	return perfdata.NamespaceLink{Device: uint64(stat.Dev), Inode: stat.Ino}
}
