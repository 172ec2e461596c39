package app_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"weir/internal/testkit/needs"
	"weir/internal/testkit/recorder"
)

// nginxBefore is nginx as its manual has it for a service behind a proxy.
const nginxBefore = `daemon off;
master_process off;
pid FOLDER/pid;
events {}
http {
    access_log off;
    client_body_temp_path FOLDER/body;
    proxy_temp_path FOLDER/proxy;
    fastcgi_temp_path FOLDER/fastcgi;
    uwsgi_temp_path FOLDER/uwsgi;
    scgi_temp_path FOLDER/scgi;
    server {
        listen LISTEN;
        location / {
            proxy_pass http://GATE;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto $scheme;
        }
    }
}
`

// haproxyBefore adds a line of its own to the X-Forwarded-For of clients.
const haproxyBefore = `defaults
    mode http
    timeout client 20s
    timeout connect 20s
    timeout server 20s
    option forwardfor
frontend web
    bind LISTEN
    default_backend weir
backend weir
    server weir GATE
`

// before starts a proxy in front of a gate, and returns where it listens. It ends with the test.
func before(t *testing.T, gate, text string, run func(folder, config string) *exec.Cmd) string {
	t.Helper()
	folder, at := t.TempDir(), needs.FreeAddress()
	file, log := filepath.Join(folder, "config"), filepath.Join(folder, "log")
	if err := os.WriteFile(file,
		[]byte(strings.NewReplacer("FOLDER", folder, "LISTEN", at, "GATE", gate).Replace(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	cmd := run(folder, file)
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Start()
	_ = out.Close()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	stop := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			<-ended
		}
	}
	t.Cleanup(stop)
	if listens(t, at, ended) {
		return at
	}
	said, _ := os.ReadFile(log)
	t.Fatalf("the proxy does not start: %s", said)
	return ""
}

// listens waits until somebody listens, or the process has ended.
func listens(t *testing.T, at string, ended <-chan struct{}) bool {
	up := false
	needs.Wait(t, "the proxy listens", func() bool {
		select {
		case <-ended:
			return true
		default:
		}
		c, err := net.Dial("tcp", at)
		if up = err == nil; up {
			_ = c.Close()
		}
		return up
	})
	return up
}

// TestInnocentsBehindProxies: clients behind a proxy that is trusted are told apart by key and by address, whatever
// they and those before them write into lists of several lines.
func TestInnocentsBehindProxies(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T, gate string) string{
		"nginx": func(t *testing.T, gate string) string {
			program := needs.Program(t, "nginx", "apt-get install nginx")
			return before(t, gate, nginxBefore, func(folder, config string) *exec.Cmd {
				return exec.Command(program, "-p", folder, "-e", "stderr", "-c", config)
			})
		},
		"haproxy": func(t *testing.T, gate string) string {
			program := needs.Program(t, "haproxy", "apt-get install haproxy")
			return before(t, gate, haproxyBefore,
				func(_, config string) *exec.Cmd { return exec.Command(program, "-db", "-f", config) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := openShop(t,
				[]string{`upstream: UPSTREAM, account: ["header:X-Api-Key", source], trusted_proxies: [127.0.0.1/32], throttles: [plans]`}, "")
			proxy := start(t, s.app.Addr("http", 0).String())
			check := func(from, account, header, forwarded string) {
				t.Helper()
				head := "GET /app/%C3%BC/list?q=a;b&x=%C3%BC&empty= HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: " +
					"odd\r\n" + header +
					"Accept-Encoding: gzip\r\nX-Name: Jürg\r\nAccept-Encoding: br;q=0.5\r\nCookie: a=\"1\"; " +
					"b={\"c\":[1,2]}\r\n\r\n"
				for i := range few {
					if status := raw(t, from, proxy, head); status != http.StatusOK {
						t.Fatalf("%s, request %d: %d", account, i+1, status)
					}
					got := s.upstream.Take()
					if len(got) != 1 {
						t.Fatalf("%d requests came", len(got))
					}
					unchanged(t, fmt.Sprintf("%s, request %d", account, i+1), recorder.Request{Head: []byte(head)},
						got[0], "shop.example")
					if have := got[0].Values("X-Forwarded-For"); !slices.Equal(have, []string{forwarded}) {
						t.Errorf("%s: the upstream is told that it comes from %q, want %q", account, have, forwarded)
					}
					if left := s.left(t, account); left != few-int64(i)-1 {
						t.Errorf("%s: after request %d, %d are left", account, i+1, left)
					}
				}
				if status := raw(t, from, proxy, head); status != http.StatusTooManyRequests ||
					len(s.upstream.Take()) > 0 {
					t.Errorf("%s, one more: %d", account, status)
				}
			}
			check("127.0.0.5", "key", "X-Api-Key: key\r\n", "127.0.0.5, 127.0.0.1")
			check("127.0.0.6", "source:127.0.0.6", "", "127.0.0.6, 127.0.0.1")
			// The client has a proxy of its own, which names the client. weir does not believe it, and does not mind.
			check("127.0.0.7", "source:127.0.0.7",
				"X-Forwarded-For: 10.1.2.3\r\nX-Forwarded-For: unknown, 192.0.2.9\r\n",
				"10.1.2.3, unknown, 192.0.2.9, 127.0.0.7, 127.0.0.1")
			check("127.0.0.7", "key2", "X-Forwarded-For: 10.1.2.3\r\nX-API-KEY: key2\r\nX-Forwarded-For: 127.0.0.5\r\n",
				"10.1.2.3, 127.0.0.5, 127.0.0.7, 127.0.0.1")
		})
	}
}

// TestInnocentForwardAuth: proxies ask in their own words about requests that name their account once.
func TestInnocentForwardAuth(t *testing.T) {
	t.Parallel()
	more := "auth:\n"
	for _, p := range places {
		more += fmt.Sprintf("- {listen: \"127.0.0.1:0\", account: [%q], throttles: [%s]}\n", p.account, p.throttle)
	}
	s := openShop(t, nil, more)
	for i, p := range places {
		for dialect, its := range map[string]struct {
			words string
			over  int // nginx understands no more than 403, and makes a 429 of it
		}{
			"nginx": {"X-Original-URI: TARGET\r\nX-Original-Method: GET\r\nX-Original-Host: " +
				"shop.example\r\nX-Real-IP: 192.0.2.1\r\n", 403},
			"traefik": {"X-Forwarded-Uri: TARGET\r\nX-Forwarded-Method: GET\r\nX-Forwarded-Host: " +
				"shop.example\r\nX-Forwarded-For: 192.0.2.1\r\n", 429},
		} {
			t.Run(p.name+"/"+dialect, func(t *testing.T) {
				ask := func(account string) int {
					t.Helper()
					q := asked(p.name, account)
					return raw(t, "127.0.0.1", s.app.Addr("auth", i).String(),
						"GET /auth HTTP/1.1\r\nHost: a\r\n"+strings.ReplaceAll(its.words, "TARGET", q.path)+
							"Accept-Encoding: gzip\r\nAccept-Encoding: br\r\n"+q.name+": "+q.value+"\r\n\r\n")
				}
				account := p.name + "/" + dialect + "=="
				for n := range few {
					if status := ask(account); status != http.StatusOK || s.left(t, account) != few-int64(n)-1 {
						t.Fatalf("request %d: %d, %d are left", n+1, status, s.left(t, account))
					}
				}
				if status := ask(account); status != its.over {
					t.Errorf("one more: %d", status)
				}
				if status := ask(account + "2"); status != http.StatusOK {
					t.Errorf("another account: %d", status)
				}
			})
		}
	}
}
