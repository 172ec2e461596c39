package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// release is set when a release is built: -ldflags "-X main.release=v1.2.3".
var release string

type versionCommand struct {
	JSON bool `name:"json" help:"Print the version as JSON."`
}

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// versionOf reads the build information.
func versionOf() versionInfo {
	v := versionInfo{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = cmp.Or(v.Version, info.Main.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v.Revision = s.Value
			}
		}
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "dev"
	}
	return v
}

func (c *versionCommand) Run(t *terminal) error {
	v := versionOf()
	if c.JSON {
		return t.json(v)
	}
	_, err := fmt.Fprintf(t.out, "weir %s (%s, %s)\n", v.Version, v.Go, v.Platform)
	return err
}
