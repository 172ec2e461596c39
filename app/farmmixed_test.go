package app

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"testing"
	"time"

	"weir/farm"
	"weir/farm/rolltest"
	"weir/internal/needs"
)

// sees reports whether each node takes each other one for what it is: one of the release before tells nothing of its
// configuration.
func (f *fold) sees() bool {
	for _, a := range f.nodes {
		for _, who := range a.member.Load().Members(time.Now()) {
			older := f.older[who.Name[0]-'a']
			if who.State != farm.Here && (who.State != farm.Up || (who.Config == "") != older) {
				return false
			}
		}
	}
	return true
}

// TestFarmOfTwoVersionsRolls: nodes of this release and of the one before, behind a balancer, are replaced by each
// other under load. No request fails for it, and no stamp is accepted twice.
func TestFarmOfTwoVersionsRolls(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	seen := map[string]int{} // how often each page was asked for
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen[r.Header.Get(rolltest.PageHeader)]++
		mu.Unlock()
		io.WriteString(w, "hello")
	}))
	t.Cleanup(service.Close)
	nodes := make([]rolltest.Node, 3)
	for i := range nodes {
		nodes[i] = rolltest.Node{Serves: needs.FreeAddress(), Console: needs.FreeAddress()}
	}
	f := newFoldOf(t, func(i int) string {
		return fmt.Sprintf(`
console: {listen: %q}
http:
- {listen: %q, upstream: %q, trusted_proxies: [127.0.0.1/32], capacity: {concurrent: 100}, throttles: [stamps]}
throttles:
  stamps: {stamp: {from_load: 0%%, first: 100, covers: 1}}
`, nodes[i].Console, nodes[i].Serves, service.URL)
	}, 0)
	load := &rolltest.Load{At: needs.FreeAddress(), Dial: (&net.Dialer{}).DialContext}
	load.HAProxy(t, nodes, (*exec.Cmd).Start)
	becomes := func(i int, older bool) func() {
		return func() {
			needs.Wait(f.t, "the nodes see who is older", f.sees)
			if err := f.nodes[i].Stop(context.Background()); err != nil {
				t.Error(err)
			}
			f.older[i] = older
			f.start(i)
			f.settled()
			needs.Wait(f.t, "the nodes see who is older", f.sees)
		}
	}
	served := load.Run(t, becomes(0, false), becomes(1, true), becomes(2, true))
	mu.Lock()
	defer mu.Unlock()
	for page, times := range seen {
		if times != 1 {
			t.Errorf("page %s was served %d times", page, times)
		}
	}
	if len(seen) != served || served == 0 {
		t.Errorf("%d pages were served, and %d were paid for", len(seen), served)
	}
}
