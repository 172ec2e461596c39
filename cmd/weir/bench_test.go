package main

import (
	"testing"
	"time"

	"weir/lab/flood"
)

func TestProgressBar(t *testing.T) {
	p := flood.Progress{Round: 3, Rounds: 4, Front: "nginx", Kind: flood.Few, Elapsed: 8500 * time.Millisecond,
		Expected: 17 * time.Second}
	if got, want := progressBar(p, 8), "█████░░░ 3/4: nginx, few sources, 8s of 17s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.Round, p.Elapsed, p.Scene, p.Kind = 4, 20*time.Second, flood.Keys, ""
	if got, want := progressBar(p, 8), "████████ 4/4: nginx, keys, waiting for the last visitors"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
