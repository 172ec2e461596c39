package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// A bill lists what is in a binary, as CycloneDX 1.6.
type bill struct {
	Format       string          `json:"bomFormat"`
	Spec         string          `json:"specVersion"`
	Serial       string          `json:"serialNumber"`
	Version      int             `json:"version"`
	Metadata     billMetadata    `json:"metadata"`
	Components   []billComponent `json:"components"`
	Dependencies []billDepends   `json:"dependencies"`
}

type billMetadata struct {
	Timestamp string        `json:"timestamp"`
	Component billComponent `json:"component"`
}

type billComponent struct {
	Type       string         `json:"type"`
	Ref        string         `json:"bom-ref"`
	Name       string         `json:"name"`
	Version    string         `json:"version"`
	Purl       string         `json:"purl,omitempty"`
	Hashes     []billHash     `json:"hashes,omitempty"`
	Licenses   []billLicense  `json:"licenses,omitempty"`
	Properties []billProperty `json:"properties,omitempty"`
}

type billHash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type billLicense struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type billProperty struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type billDepends struct {
	Ref string   `json:"ref"`
	On  []string `json:"dependsOn"`
}

// billOf reads what the linker wrote into a binary about its modules. The serial number follows from the binary, so
// that the same binary has the same bill.
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
	apache := billLicense{}
	apache.License.ID = "Apache-2.0"
	b := bill{Format: "CycloneDX", Spec: "1.6", Serial: serial(sum), Version: 1, Metadata: billMetadata{
		Timestamp: v.date.Format(time.RFC3339),
		Component: billComponent{Type: "application", Ref: self, Name: self, Version: v.name,
			Hashes: []billHash{{"SHA-256", fmt.Sprintf("%x", sum)}}, Licenses: []billLicense{apache},
			Properties: []billProperty{{"weir:commit", v.commit}, {"weir:target", t.system + "/" + t.arch}}},
	}}
	depends := billDepends{Ref: self}
	add := func(c billComponent) {
		c.Type, c.Ref = "library", c.Purl
		b.Components, depends.On = append(b.Components, c), append(depends.On, c.Ref)
	}
	add(billComponent{Name: "std", Version: info.GoVersion,
		Purl: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go")})
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := billComponent{Name: m.Path, Version: m.Version,
			Purl: fmt.Sprintf("pkg:golang/%s@%s", m.Path, strings.ReplaceAll(m.Version, "+", "%2B"))}
		if m.Sum != "" {
			c.Properties = []billProperty{{"go:sum", m.Sum}}
		}
		add(c)
	}
	slices.SortFunc(b.Components, func(x, y billComponent) int { return strings.Compare(x.Purl, y.Purl) })
	slices.Sort(depends.On)
	b.Dependencies = []billDepends{depends}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	err = e.Encode(b)
	return text.Bytes(), err
}

// serial is a UUID (RFC 9562 section 5.8, version 8) made of a checksum.
func serial(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
