package app

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"weir/internal/testkit/needs"
)

// TestOldGenerationsAreGone: whatever a reload replaces is garbage afterwards. One reference back to the configuration
// before would keep all of them: 60 KB for each reload.
func TestOldGenerationsAreGone(t *testing.T) {
	text := strings.ReplaceAll(everyGate, "TCPUPSTREAM", echoServer(t)) + `
auth: [{listen: "127.0.0.1:0", throttles: [each]}]
rls: [{listen: "127.0.0.1:0", authz: {throttles: [each]}}]
postfix: [{listen: "127.0.0.1:0", realm: keep, over: defer, throttles: [outgoing]}]
smtp: [{listen: "127.0.0.1:0", hostname: mail.example.org, next_hop: "127.0.0.1:1", throttles: [contacts, outgoing]}]
`
	text = strings.Replace(text, "  each:  ",
		"  outgoing: {mail: {rate: 1/m}}\n  contacts: {reach: {threshold: LIMIT}}\n"+
			"  plans: {quota: {policies: [{name: per-second, limit: LIMIT, period: 1s}]}}\n  each:  ", 1)
	text = strings.Replace(text, "throttles: [each]}\ntcp",
		"capacity: {concurrent: 10}, throttles: [each, plans]}\nEXTRA\ntcp", 1)
	at := func(n int) string {
		extra := ""
		if n%2 == 1 {
			extra = `- {listen: "127.0.0.2:0", upstream: UPSTREAM, throttles: [each]}`
		}
		return strings.NewReplacer("LIMIT", fmt.Sprint(100+n), "EXTRA", extra).Replace(text)
	}
	b := start(t, at(0))
	const reloads = 8
	var gone atomic.Int64
	for n := range reloads {
		runtime.AddCleanup(b.current.Load(), func(struct{}) { gone.Add(1) }, struct{}{})
		if err := b.Reload(b.config(at(n + 1))); err != nil {
			t.Fatal(err)
		}
	}
	needs.Wait(t, "old generations are gone", func() bool { // a gate may be busy going down
		runtime.GC()
		return gone.Load() >= reloads-1
	})
}
