package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// writeSBOM writes a CycloneDX document of a binary: the modules in its build information, with their licences.
func (r release) writeSBOM(path, arch string, modules []module) error {
	main := cdx.Component{
		BOMRef: "bperf", Type: cdx.ComponentTypeApplication, Name: "bperf", Version: upstreamVersion(r.version),
		PackageURL: "pkg:golang/github.com/bperf/bperf@" + r.version + "?type=module&goos=linux&goarch=" + arch,
		Licenses:   &cdx.Licenses{{Expression: licence}},
	}
	var components []cdx.Component
	var refs []string
	for _, m := range modules {
		c := cdx.Component{
			Type: cdx.ComponentTypeLibrary, Name: m.path, Version: m.version, PackageURL: "pkg:golang/" + m.path + "@" + m.version + "?type=module",
			Licenses: &cdx.Licenses{{Expression: m.licence}},
		}
		c.BOMRef = c.PackageURL
		if m.sum != "" {
			sum, err := goSum(m.sum)
			if err != nil {
				return fmt.Errorf("%s %s: %w", m.path, m.version, err)
			}
			c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: sum}}
		}
		components = append(components, c)
		refs = append(refs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: r.time.Format("2006-01-02T15:04:05Z07:00"), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	var b bytes.Buffer
	if err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o666)
}

// goSum returns a sum of go.sum in hexadecimal. It is the SHA-256 sum of a list of the module's files and their sums, as
// golang.org/x/mod/sumdb/dirhash makes it; cyclonedx-gomod gives the same in its documents.
func goSum(sum string) (string, error) {
	encoded, found := strings.CutPrefix(sum, "h1:")
	if !found {
		return "", fmt.Errorf("unknown sum %q", sum)
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return "", fmt.Errorf("sum %q: %w", sum, err)
	}
	return hex.EncodeToString(raw), nil
}
