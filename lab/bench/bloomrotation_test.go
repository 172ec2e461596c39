//go:build linux

package main

import (
	"testing"
	"time"
)

func TestBucket(t *testing.T) {
	b, granted := bucket{tokens: 5}, 0
	for at := time.Duration(0); at < 10*time.Second; at += 100 * time.Millisecond {
		if b.take(at, 2, 5) {
			granted++
		}
	}
	if granted != 5+2*10-1 { // the last token comes at the end of the last second
		t.Errorf("granted %d", granted)
	}
}
