package report

import (
	"strings"
	"testing"
)

func TestBlockList(t *testing.T) {
	damaged := make([]uint64, 1<<10)
	for i := range damaged {
		damaged[i] = 0x5555555555555555
	}
	blocks, list := blockList(damaged)
	if blocks != 32<<10 || !strings.HasSuffix(list, ",1998,…") {
		t.Errorf("%d blocks, and a list of %d bytes that ends with %.20q", blocks, len(list), list[len(list)-20:])
	}
}
