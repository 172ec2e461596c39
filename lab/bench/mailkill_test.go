//go:build linux

package main

import (
	"testing"

	"weir/internal/testkit/needs"
)

// TestKilledUnderLoad is M2 in short. That no mail is lost by a kill or a power cut is seen from outside by the tests
// of cmd/weir, and whether M2 works by a quick run of the measurements.
func TestKilledUnderLoad(t *testing.T) {
	needs.Unwatched(t)
	if !needs.Long() {
		t.Skip("a build and kills: make long")
	}
	folder := t.TempDir()
	m2 := &trial{}
	t.Cleanup(m2.end)
	var k *killed
	if err := attempt(func() { k = m2.kill(buildWeir(folder), folder, 4) }); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range [][]string{k.lost, k.unexplained, k.damaged} {
		for _, one := range wrong {
			t.Error(one)
		}
	}
	if k.acknowledged == 0 {
		t.Error("no mail was acknowledged")
	}
}
