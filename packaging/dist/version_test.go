package main

import (
	"os/exec"
	"testing"
	"time"
)

var commitTime = time.Unix(1_767_366_245, 0) // 2026-01-02 15:04:05 UTC

func TestPackageVersion(t *testing.T) {
	for described, want := range map[string]string{
		"v1.2.3":                     "1.2.3",
		"1.2.3":                      "1.2.3",
		"v1.2.3-rc.1":                "1.2.3~rc.1",
		"v1.2.3-3-gabc1234":          "1.2.3+3.gabc1234",
		"v1.2.3-rc.1-3-gabc1234":     "1.2.3~rc.1+3.gabc1234",
		"v1.2.3-dirty":               "1.2.3+dirty",
		"v1.2.3-3-gabc1234-dirty":    "1.2.3+3.gabc1234+dirty",
		"abc1234":                    "0~20260102150405.abc1234",
		"1234567":                    "0~20260102150405.1234567",
		"abc1234-dirty":              "0~20260102150405.abc1234+dirty",
		"release-candidate-5-gabc12": "0~20260102150405.release.candidate+5.gabc12",
	} {
		if got := packageVersion(described, commitTime); got != want {
			t.Errorf("packageVersion(%q) = %q, want %q", described, got, want)
		}
	}
}

// TestPackageVersionsSort checks with dpkg that versions sort as they follow each other.
func TestPackageVersionsSort(t *testing.T) {
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip(err)
	}
	inOrder := []string{"ffffff", "v0.1.0-rc.1", "v0.1.0-rc.1-2-gabc1234", "v0.1.0-rc.2", "v0.1.0", "v0.1.0-2-gabc1234", "v0.1.0-10-gabc1234",
		"v0.1.1"}
	for i := range len(inOrder) - 1 {
		a, b := packageVersion(inOrder[i], commitTime), packageVersion(inOrder[i+1], commitTime)
		if out, err := exec.Command("dpkg", "--compare-versions", a, "lt", b).CombinedOutput(); err != nil {
			t.Errorf("dpkg: %s is not less than %s: %v %s", a, b, err, out)
		}
	}
}
