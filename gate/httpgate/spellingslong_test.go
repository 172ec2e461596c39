package httpgate

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/testkit/needs"
	"weir/internal/testkit/readers"
)

// realServers are programs behind the gate that say what they read. Debian has all but express, which npm has.
var realServers = []struct {
	name, from string
	args       []string // PORT stands for the port
	has        []string // a command that succeeds where what it needs is there
}{
	{"Python's http.server", "python3", []string{"python3", "stdlib.py", "PORT"}, []string{"python3", "--version"}},
	{"Tornado", "python3-tornado", []string{"/usr/bin/python3", "tornado.py", "PORT"},
		[]string{"/usr/bin/python3", "-c", "import tornado"}},
	{"Werkzeug", "python3-werkzeug", []string{"/usr/bin/python3", "werkzeug.py", "PORT"},
		[]string{"/usr/bin/python3", "-c", "import werkzeug"}},
	{"aiohttp", "python3-aiohttp", []string{"/usr/bin/python3", "aiohttp.py", "PORT"},
		[]string{"/usr/bin/python3", "-c", "import aiohttp"}},
	{"Perl's HTTP::Daemon", "libhttp-daemon-perl", []string{"perl", "daemon.pl", "PORT"},
		[]string{"perl", "-MHTTP::Daemon", "-MCGI::Cookie", "-e1"}},
	{"PHP", "php-cli", []string{"php", "-S", "127.0.0.1:PORT", "server.php"}, []string{"php", "--version"}},
	{"Ruby's WEBrick", "ruby-webrick", []string{"ruby", "webrick.rb", "PORT"}, []string{"ruby", "-rwebrick", "-e1"}},
	{"Node", "nodejs", []string{"node", "node.js", "PORT"}, []string{"node", "--version"}},
	{"Express", "npm install express cookie-parser", []string{"node", "node.js", "PORT", "express"},
		[]string{"node", "-e", "require('express'); require('cookie-parser')"}},
}

// TestSpellingsOfRealServers: no real server reads something in a spelling that weir did not charge.
func TestSpellingsOfRealServers(t *testing.T) {
	if !needs.Long() {
		t.Skip("asks real servers; runs with WEIR_LONG=1")
	}
	modules, err := filepath.Abs("../../bin/peers/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("Go", func(t *testing.T) {
		noSurprise(t, upstream(t, func(w http.ResponseWriter, r *http.Request) {
			read := map[string]string{"path": r.URL.Path, "query": r.URL.Query().Get("key"), "method": r.Method,
				"header": r.Header.Get("X-Api-Key"), "override": r.Header.Get("X-HTTP-Method-Override"), "host": r.Host}
			if c, err := r.Cookie("session"); err == nil {
				read["cookie"] = c.Value
			}
			_ = json.NewEncoder(w).Encode(read)
		}).URL)
	})
	for _, s := range realServers {
		t.Run(s.name, func(t *testing.T) {
			env := append(os.Environ(), "NODE_PATH="+modules, "PYTHONWARNINGS=ignore")
			has := exec.Command(s.has[0], s.has[1:]...)
			if has.Env = env; has.Run() != nil {
				needs.Skip(t, s.name+" is not installed ("+s.from+")")
			}
			addr := needs.FreeAddress()
			_, port, _ := net.SplitHostPort(addr)
			args := strings.Fields(strings.ReplaceAll(strings.Join(s.args, " "), "PORT", port))
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Dir, cmd.Env = "../../internal/testkit/readers/servers", env
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
			needs.Wait(t, s.name, func() bool {
				c, err := net.Dial("tcp", addr)
				if err == nil {
					_ = c.Close()
				}
				return err == nil
			})
			noSurprise(t, "http://"+addr)
		})
	}
}

// plain is the one form of all spellings of an account: escapes, spaces around it and quotes make no other one.
func plain(account string) string {
	account = strings.ReplaceAll(account, "%u00", "%")
	for range 3 {
		if text, err := url.PathUnescape(account); err == nil {
			account = text
		}
	}
	return strings.Trim(account, " \t\"")
}

// noSurprise compares what a server reads in every spelling with what weir charged.
func noSurprise(t *testing.T, url string) {
	s := newSpeller(t, url)
	for _, row := range readers.Spellings {
		for i := range readers.Positions {
			p := &readers.Positions[i]
			weirs, body := s.ask(p, row.Text)
			var read map[string]string
			if weirs == '-' || json.Unmarshal([]byte(body), &read) != nil {
				continue // it went nowhere, or the server refused it
			}
			got := read[p.Key]
			switch means := got == p.Means; {
			case means && weirs == '.':
				t.Errorf("%s %q: the server reads %q, which weir did not charge", p.Name, row.Text, got)
			case got != "" && p.Account != "" && weirs == '=' && plain(got) != p.Means:
				t.Errorf("%s %q: the server reads %q, and weir charged %q", p.Name, row.Text, got, p.Means)
			}
		}
	}
}
