//go:build linux

package main

import (
	"reflect"
	"testing"
)

// TestReported: nobody connected in the first round, so it has no percentile.
func TestReported(t *testing.T) {
	got := reported(`goos: linux
BenchmarkPeople/cookies=off/shadow-2         	       1	     19981 SYNs/s	         0 connected-%	      4579 ns/SYN
BenchmarkPeople/cookies=off/enforce-16       	       1	     19963 SYNs/s	       100.0 connected-%	      2239 ns/SYN	         5.086 p95-ms
PASS
ok  	weir/gate/xdpgate	27.163s
`)
	want := benchmarks{
		"People/cookies=off/shadow":  {"SYNs/s": 19981, "connected-%": 0, "ns/SYN": 4579},
		"People/cookies=off/enforce": {"SYNs/s": 19963, "connected-%": 100, "ns/SYN": 2239, "p95-ms": 5.086},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
