package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/config"
	"weir/gate/httpgate"
	"weir/internal/testkit/dnstest"
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

// TestUnresolved: weir check warns of servers whose names are looked up and have no address, at their line.
func TestUnresolved(t *testing.T) {
	dns := dnstest.Start(t)
	dns.Set("known.example", "127.0.0.1")
	dns.Set("old.example", "127.0.0.1")
	file := filepath.Join(t.TempDir(), "weir.yaml")
	text := `http:
- listen: 127.0.0.1:80
  upstream:
    servers: [http://known.example, "http://unknown.example:3000", "http://127.0.0.1:3000"]
    resolve: 30s
- listen: 127.0.0.1:81
  upstream: {servers: [http://old.example], resolve: 30s, family: ipv6}
- listen: 127.0.0.1:82
  upstream: http://also-unknown.example
`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	got := unresolved(cfg, file, dns.Resolver())
	if len(got) != 2 || got[0].Line != 4 || !strings.Contains(got[0].Msg, "unknown.example cannot be looked up") ||
		got[1].Line != 7 || got[0].Hint == "" {
		t.Errorf("%v", got)
	}
}
