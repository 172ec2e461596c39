package config

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"weir"
)

// sockets are configurations with a socket, by the type and the key that take it.
var sockets = map[string]string{
	"httpgate.Options listen":     `http: [{listen: "unix:AT", upstream: "http://127.0.0.1:3000"}]`,
	"authgate.Options listen":     `auth: [{listen: "unix:AT", throttles: []}]`,
	"rlsgate.Options listen":      `rls: [{listen: "unix:AT", limits: []}]`,
	"postfixgate.Options listen":  `postfix: [{listen: "unix:AT", throttles: []}]`,
	"tcpgate.Options upstream":    `tcp: [{listen: "127.0.0.1:0", upstream: "unix:AT"}]`,
	"upstream.Options servers":    `http: [{listen: "127.0.0.1:0", routes: [{upstream: {servers: ["unix:AT"]}}]}]`,
	"nexthop.Options servers":     `notify: [{mail: {to: [a@example.org], next_hop: {servers: ["unix:AT"]}}}]`,
	"nexthop.Options servers, in": `postfix: [{listen: "127.0.0.1:0", next_hop: "lmtp:unix:AT"}]`,
	"farm.Options counters":       `farm: {counters: "redis+unix://:pass/word@AT?db=1"}`,
}

// TestSocketFolders: wherever a socket may be named, its folder must be there, and the socket need not.
func TestSocketFolders(t *testing.T) {
	var schema struct {
		Defs map[string]struct {
			Properties map[string]struct{ Description string }
		} `json:"$defs"`
	}
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
	for name, def := range schema.Defs {
		for key, p := range def.Properties {
			if _, ok := sockets[name+" "+key]; !ok && strings.Contains(p.Description, "unix:/") {
				t.Errorf("%s of %s takes a socket, and no case has one", key, name)
			}
		}
	}
	folder := t.TempDir()
	for name, text := range sockets {
		for _, c := range []struct {
			path  string
			found int
		}{{filepath.Join(folder, "later.sock"), 0}, {filepath.Join(folder, "none", "x.sock"), 1}} {
			cfg, _, _ := read(filepath.Join(folder, "weir.yaml"), strings.ReplaceAll(text, "AT", c.path), forAnywhere)
			if cfg == nil {
				t.Fatalf("%s: %s cannot be read", name, text)
			}
			all := weir.FieldErrors(cfg.NotHere())
			if len(all) != c.found || c.found == 1 && !strings.Contains(all[0].Msg, filepath.Join(folder, "none")) {
				t.Errorf("%s with %s: %v", name, c.path, all)
			}
		}
	}
}
