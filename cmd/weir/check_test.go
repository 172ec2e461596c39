package main

import (
	"testing"

	"weir/config"
	"weir/gate/httpgate"
)

func TestTooFewFiles(t *testing.T) {
	cfg := &config.Config{HTTP: []httpgate.Options{{Bounds: httpgate.Bounds{Connections: 1000}}}}
	const needed = 2*1000 + otherFiles
	for limit, want := range map[uint64]int{0: 0, needed: 0, needed - 1: 1, 1024: 1} {
		if got := tooFewFiles(cfg, "weir.yaml", limit); len(got) != want {
			t.Errorf("%d files: %v", limit, got)
		}
	}
}
