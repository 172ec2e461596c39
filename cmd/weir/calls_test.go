package main

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"weir/console"
	"weir/internal/testkit/needs"
)

// asksNobody are the commands that ask no running weir, and why.
var asksNobody = map[string]string{
	"serve": "it is the running weir", "demo play": "it runs weirs of its own", "init": "it writes a file",
	"check": "it reads a file", "store check": "weir is stopped", "store salvage": "weir is stopped",
	"plan bloom": "it calculates", "stamp solve": "it is a client of a gate", "stamp mail": "it is a client of a gate",
	"simulate mail": "it calculates", "simulate virus": "it calculates", "simulate reach": "it calculates",
	"simulate flood": "it calculates", "bench flood": "it measures", "version": "it knows",
	"completion": "it knows", "xdp status": "it asks the kernel", "xdp detach": "it asks the kernel",
	"upgrade": "it sends a signal",
}

// TestCommandsAndCallsAreOneList: each command that asks a running weir makes a call, each call is made by a command,
// and the OpenAPI document has the same list.
func TestCommandsAndCallsAreOneList(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	made, commands := map[string]bool{}, parser(t).Model
	type key struct{ method, path string }
	calls := map[key]*console.Call{}
	for _, c := range console.Calls() {
		if calls[key{c.Method, c.Path}] != nil {
			t.Errorf("%s %s is there twice", c.Method, c.Path)
		}
		calls[key{c.Method, c.Path}] = c
		if len(c.Commands) == 0 || c.Summary == "" || !strings.HasSuffix(c.Summary, ".") {
			t.Errorf("%s %s: no command, or no summary", c.Method, c.Path)
		}
		for _, command := range c.Commands {
			words, flag, flagged := strings.Cut(command, " --")
			made[words] = true
			node := find(commands.Node, strings.Fields(words))
			if node == nil {
				t.Errorf("%s %s: there is no command weir %s", c.Method, c.Path, words)
				continue
			}
			for _, name := range []string{"json", flag} {
				if c.Stream && name == "json" {
					continue // it shows progress
				}
				if name != "" && !slices.ContainsFunc(flagsOf(node), func(f string) bool { return f == name }) {
					t.Errorf("weir %s has no flag --%s (%t)", words, name, flagged)
				}
			}
			for _, name := range []string{"control", "url", "token-file", "ca"} {
				if !slices.Contains(flagsOf(node), name) {
					t.Errorf("weir %s cannot be told which weir to ask: no --%s", words, name)
				}
			}
		}
	}
	for _, leaf := range commands.Leaves(true) {
		if (asksNobody[leaf.Path()] != "") == made[leaf.Path()] {
			t.Errorf("weir %s: makes a call %t, is offline %q", leaf.Path(), made[leaf.Path()], asksNobody[leaf.Path()])
		}
	}

	text, err := os.ReadFile("../../console/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Commands []string `json:"x-weir-commands"`
			Role     string   `json:"x-weir-role"`
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	n := 0
	for path, methods := range doc.Paths {
		for method, op := range methods {
			n++
			c := calls[key{strings.ToUpper(method), path}]
			if c == nil || !slices.Equal(op.Commands, c.Commands) || op.Role != string(c.Role) {
				t.Errorf("%s %s: the document and the table differ", method, path)
			}
		}
	}
	if n != len(calls) {
		t.Errorf("the document has %d calls, the table %d", n, len(calls))
	}
}

// TestRemote: commands send the token to the URL, and to nothing else.
func TestRemote(t *testing.T) {
	var got []string
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization")+" "+r.URL.Path)
		if strings.Contains(r.URL.Path, "account") {
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(http.StatusFound)
		}
		_, _ = w.Write([]byte(`{"version":"9"}`))
	}))
	defer server.Close()
	folder := t.TempDir()
	token, ca := folder+"/token", folder+"/ca.pem"
	write := func(path string, text []byte) {
		t.Helper()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token, []byte("weir_secret\n"))
	write(ca, pemOf(server.Certificate().Raw))
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"status", "--json", "--url", server.URL, "--token-file", token, "--ca", ca}, exitOK, `"version": "9"`},
		{[]string{"status", "--url", server.URL, "--token-file", token}, exitFailed, "certificate"},
		{[]string{"status", "--url", server.URL, "--ca", ca}, exitFailed, "there is no token"},
		{[]string{"account", "get", "x", "--url", server.URL, "--token-file", token, "--ca", ca}, exitFailed, "302"},
		{[]string{"status", "--url", "http://192.0.2.1:9000", "--token-file", token}, exitFailed, "without TLS"},
		{[]string{"status", "--url", "ftp://x", "--token-file", token}, exitFailed, "https://weir.example.com:9000"},
		{[]string{"status", "--url", server.URL, "--control", "x"}, exitFailed, "leave out --control"},
		{[]string{"status", "--token-file", token, "--control", "x"}, exitFailed, "go with --url"},
		{[]string{"status", "--url", server.URL, "--token-file", token, "--ca", token}, exitFailed, "no certificate"},
		{[]string{"upgrade", "--url", server.URL, "--token-file", token, "--ca", ca}, exitFailed, "the machine that weir"},
	} {
		var out strings.Builder
		code := run(c.args, &terminal{out: &out, err: &out})
		if code != c.code || !strings.Contains(out.String(), c.says) || strings.Contains(out.String(), "weir_secret") {
			t.Errorf("%q: %d %s", c.args, code, out.String())
		}
	}
	for _, line := range got {
		if !strings.HasPrefix(line, "Bearer weir_secret /api/v1/") {
			t.Errorf("sent %s", line)
		}
	}
	t.Setenv("WEIR_URL", server.URL)
	t.Setenv("WEIR_TOKEN", "weir_environment")
	t.Setenv("WEIR_CONTROL", "")
	var out strings.Builder
	if code := run([]string{"status", "--json", "--ca", ca}, &terminal{out: &out, err: &out}); code != exitOK ||
		got[len(got)-1] != "Bearer weir_environment /api/v1/status" {
		t.Errorf("%d %s %v", code, out.String(), got)
	}
}

func pemOf(cert []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
}

// flagsOf are the flags of a command.
func flagsOf(node *kong.Node) (all []string) {
	for _, f := range node.Flags {
		all = append(all, f.Name)
	}
	return all
}
