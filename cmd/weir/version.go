package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// A release sets these by -ldflags "-X main.release=v1.2.3": the tag, the commit, and when the commit was made. All
// three depend on the source alone, so that two builds of one commit are the same.
var (
	release string
	commit  string
	date    string // RFC 3339
)

type versionCommand struct {
	JSON bool `name:"json" help:"Print the version as JSON."`
}

type versionInfo struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// versionOf reads what the build was told. A build by go install knows its module's version, and one from a checkout
// may know its commit.
func versionOf() versionInfo {
	v := versionInfo{Version: release, Commit: commit, Date: date, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		v.Version = cmp.Or(v.Version, info.Main.Version)
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				v.Commit = cmp.Or(v.Commit, s.Value)
			case "vcs.time":
				v.Date = cmp.Or(v.Date, s.Value)
			}
		}
	}
	if v.Version == "" || v.Version == "(devel)" {
		v.Version = "dev"
	}
	return v
}

// shortCommit is how many digits of a commit are shown to people.
const shortCommit = 12

// String is the version in one line.
func (v versionInfo) String() string {
	var of []string
	if v.Commit != "" {
		of = append(of, "commit "+v.Commit[:min(len(v.Commit), shortCommit)])
	}
	if v.Date != "" {
		of = append(of, v.Date)
	}
	return fmt.Sprintf("weir %s (%s)", v.Version, strings.Join(append(of, v.Go, v.Platform), ", "))
}

func (c *versionCommand) Run(t *terminal) error {
	v := versionOf()
	if c.JSON {
		return t.json(v)
	}
	_, err := fmt.Fprintln(t.out, v)
	return err
}
