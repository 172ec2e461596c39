package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// billOf lists what is in a binary, as CycloneDX 1.6: what the linker wrote into it about its modules. The serial
// number follows from the binary, so that the same binary has the same bill.
func billOf(binary string, t target, v version) ([]byte, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	const self = "weir"
	b := cdx.NewBOM()
	b.SerialNumber = serial(sum)
	b.Metadata = &cdx.Metadata{Timestamp: v.date.Format(time.RFC3339),
		Component: &cdx.Component{Type: cdx.ComponentTypeApplication, BOMRef: self, Name: self, Version: v.name,
			Hashes:   &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sum)}},
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
			Properties: &[]cdx.Property{{Name: "weir:commit", Value: v.commit},
				{Name: "weir:target", Value: t.system + "/" + t.arch}}},
	}
	all := []cdx.Component{{Name: "std", Version: info.GoVersion,
		PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := cdx.Component{Name: m.Path, Version: m.Version,
			PackageURL: fmt.Sprintf("pkg:golang/%s@%s", m.Path, strings.ReplaceAll(m.Version, "+", "%2B"))}
		if m.Sum != "" {
			c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
		}
		all = append(all, c)
	}
	slices.SortFunc(all, func(x, y cdx.Component) int { return strings.Compare(x.PackageURL, y.PackageURL) })
	var on []string
	for i := range all {
		all[i].Type, all[i].BOMRef = cdx.ComponentTypeLibrary, all[i].PackageURL
		on = append(on, all[i].BOMRef)
	}
	b.Components, b.Dependencies = &all, &[]cdx.Dependency{{Ref: self, Dependencies: &on}}
	var text bytes.Buffer
	err = cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).
		EncodeVersion(b, cdx.SpecVersion1_6)
	return text.Bytes(), err
}

// serial is a UUID (RFC 9562 section 5.8, version 8) made of a checksum.
func serial(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
