package policy

import (
	"net/netip"
	"testing"

	"weir"
)

// TestDoor: whoever is admitted comes in; nobody waits or pays at a door; trusted proxies are not asked.
func TestDoor(t *testing.T) {
	source, proxy := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("10.0.0.1")
	for _, v := range weir.Verdicts {
		s := &script{answer: weir.Answer{Verdict: v}}
		chain, _ := New([]*Link{NewLink("edge", s, Closed)}, nil)
		door := NewDoor(chain, func(a netip.Addr) bool { return a == proxy })
		if in := door.Admit(source, start); in != (v == weir.Admit) {
			t.Errorf("%s: in is %v", v, in)
		}
		if v < weir.Challenge && (len(s.settled) != 1 || s.settled[0].Done != (v == weir.Admit)) {
			t.Errorf("%s: settled %v", v, s.settled)
		}
		if !door.Admit(proxy, start) {
			t.Errorf("%s: the proxy is turned away", v)
		}
		if got := chain.Links()[0].Counts.Verdicts[v].Load(); got != 1 {
			t.Errorf("%s: counted %d times", v, got)
		}
	}
	var open *Door
	if !open.Admit(source, start) {
		t.Error("no door turns somebody away")
	}
}
