package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/smtp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	auth "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"

	"weir/console"
	"weir/internal/testkit/keeper"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/postfix"
	"weir/lab/machine"
	"weir/throttle/stamp/payer"
)

// A startedInit is a weir that runs with a file of weir init.
type startedInit struct {
	t       *testing.T
	file    string
	text    string
	try     string // the commands that weir init shows
	control *console.Client
}

// startInit writes a configuration by weir init, in a process of its own, and starts a weir with it.
func startInit(t *testing.T, kind string, flags ...string) *startedInit {
	t.Helper()
	folder, err := os.MkdirTemp("", "weir") // t.TempDir has too long a name for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	s := &startedInit{t: t, file: filepath.Join(folder, "weir.yaml"),
		control: console.NewClient(filepath.Join(folder, "data", "weir.sock"))}
	args := append([]string{"init", "--for", kind, "--out", s.file, "--data", filepath.Join(folder, "data"),
		"--console", needs.FreeAddress()}, flags...)
	out, err := exec.Command("weir", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, s.try, _ = strings.Cut(string(out), "weir serve -c "+s.file+"\n\n")
	_, s.try, _ = strings.Cut(s.try, "\n\n")
	text, err := os.ReadFile(s.file)
	if err != nil {
		t.Fatal(err)
	}
	s.text = string(text)
	weir := startWeir(t, s.file, "weir")
	t.Cleanup(func() { weir.Process.Kill(); weir.Wait() })
	return s
}

// shows runs the commands that weir init shows, with some changes, and compares what they say.
func (s *startedInit) shows(want string, changes ...string) {
	s.t.Helper()
	needs.Program(s.t, "curl", "apt-get install curl")
	shell := needs.Program(s.t, "bash", "apt-get install bash")
	if s.try == "" {
		s.t.Fatal("weir init shows no command")
	}
	out, err := exec.Command(shell, "-c", strings.NewReplacer(changes...).Replace(s.try)).CombinedOutput()
	if !regexp.MustCompile(want).MatchString(strings.Join(strings.Fields(string(out)), " ")) {
		s.t.Errorf("%v: %s\nwant %s\n%s", err, out, want, s.try)
	}
}

// helloServer answers everything, and holds back what is asked for /hang until the test ends.
func helloServer(t *testing.T) (url string, hangs chan struct{}) {
	hangs = make(chan struct{}, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hang" {
			hangs <- struct{}{}
			<-r.Context().Done()
		}
		io.WriteString(w, "hello")
	}))
	t.Cleanup(upstream.Close)
	return upstream.URL, hangs
}

func TestInitAPI(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	upstream, _ := helloServer(t)
	s := startInit(t, "api", "--listen", needs.FreeAddress(), "--upstream", upstream, "--limit", "5/1h")
	s.shows("^5 200 1 429$")
	s.shows("^5 200 1 429$", "X-Api-Key: test", "X-Api-Key: other")
	s.shows("^6 429$")
	s = startInit(t, "api", "--listen", needs.FreeAddress(), "--upstream", upstream, "--limit", "5/1h", "--header", "X-Customer")
	s.shows("^5 200 1 429$")
	s.shows("^5 200 1 429$", "X-Customer: test", "X-Customer: other")
}

// A network over its limit is refused. While the service is busy, people get the waiting room.
func TestInitSite(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	upstream, hangs := helloServer(t)
	s := startInit(t, "site", "--listen", needs.FreeAddress(), "--upstream", upstream, "--limit", "3/1h")
	s.shows("^15 200 15 429$")
	listen := needs.FreeAddress()
	startInit(t, "site", "--listen", listen, "--upstream", upstream, "--limit", "1000/s", "--concurrent", "1")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		if req, err := http.NewRequestWithContext(ctx, "GET", "http://"+listen+"/hang", nil); err == nil {
			http.DefaultClient.Do(req) // it ends with the test
		}
	}()
	<-hangs
	// The load is that of the last second.
	needs.Wait(t, "somebody gets the waiting room", func() bool { return challenged(t, listen) })
}

// challenged asks once as a browser does, without patience, and reports whether it gets the waiting room and a puzzle.
func challenged(t *testing.T, listen string) bool {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+listen+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false // it waits its turn
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	return err == nil && resp.StatusCode == http.StatusServiceUnavailable &&
		resp.Header.Get(payer.ChallengeHeader) != "" && strings.Contains(string(page), "One moment, please")
}

func TestInitMail(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	next := newHop(t, "user")
	s := startInit(t, "mail", "--listen", needs.FreeAddress(), "--upstream", next.address, "--hostname", "mail.example.org")
	s.shows("^try may send mail .*try stopped since ", "weir user add", "echo 'correct horse battery' | weir user add",
		"--user try", "--user 'try:correct horse battery'")
	if err := smtp.SendMail(reachable(listenOf(t, s.text)), nil, "try@mail.example.org", []string{"user@weir.invalid"},
		[]byte("Subject: x\r\n\r\n")); err == nil || !strings.Contains(err.Error(), "530") {
		t.Errorf("without a login: %v", err)
	}
}

// listenOf is the first address in a file on which a gate listens.
func listenOf(t *testing.T, text string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^- listen: (\S+)$`).FindStringSubmatch(text)
	if found == nil {
		t.Fatal("no gate listens")
	}
	return found[1]
}

// The real Postfix, with the lines that the file has for it, has a message wait that goes to too many new people, and
// hands on what passes.
func TestInitPostfix(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	back := needs.FreeAddress()
	s := startInit(t, "postfix", "--listen", needs.FreeAddress(), "--divert", needs.FreeAddress(), "--upstream", back,
		"--hostname", "mail.example.org")
	s.shows(`action=FILTER weir:\[127.0.0.1\]:\d+$`)
	_, lines, _ := strings.Cut(s.text, "/etc/postfix/main.cf:")
	main, master, _ := strings.Cut(lines, "/etc/postfix/master.cf:")
	o := postfix.Options{Main: map[string]string{}, Users: map[string]string{"ann": "secret"}}
	for line := range strings.Lines(main) {
		if name, value, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "#")), " = "); ok {
			o.Main[name] = value
		}
	}
	for line := range strings.Lines(master) {
		if text := strings.TrimPrefix(strings.TrimRight(line, "\n"), "#     "); strings.TrimSpace(text) != "" && text != "#" {
			o.Master = append(o.Master, text)
		}
	}
	if len(o.Main) != 5 || len(o.Master) != 8 {
		t.Fatalf("%d lines for main.cf, %d for master.cf", len(o.Main), len(o.Master))
	}
	if postfix.Missing() != "" {
		postfix.Start(t, postfix.Options{}) // skips, or fails
	}
	world := postfix.NewSink(t)
	o.Relay = world.Addr()
	mta := postfix.Start(t, o)
	send := func(to ...string) {
		t.Helper()
		if err := smtp.SendMail(mta.Addr, smtp.PlainAuth("", "ann", "secret", "127.0.0.1"), "ann@example.org", to,
			[]byte("Subject: x\r\n\r\nhello\r\n")); err != nil {
			t.Fatalf("%v\n%s", err, mta.Log())
		}
	}
	send("friend@example.net")
	if mails := world.Await(1); mails[0].To[0] != "friend@example.net" {
		t.Errorf("%+v", mails)
	}
	send("stranger@example.net")
	if !keeper.Await(func() bool {
		status, err := console.StatusCall.Ask(t.Context(), s.control, console.None{})
		return err == nil && status.Mail != nil && status.Mail.Messages == 1
	}) {
		t.Fatalf("the second message does not wait\n%s", mta.Log())
	}
	if mails := world.Mails(); len(mails) != 1 {
		t.Errorf("%+v", mails)
	}
}

// The real nginx, with the recipe that the file names, refuses the request over the limit.
func TestInitNginx(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	listen, web, app := needs.FreeAddress(), needs.FreeAddress(), ""
	app, _ = helloServer(t)
	s := startInit(t, "nginx", "--listen", listen, "--limit", "5/1h")
	s.shows("^5 200 1 403$")
	recipe, err := os.ReadFile("../../examples/nginx-auth.conf")
	if err != nil {
		t.Fatal(err)
	}
	startNginx(t, web, strings.NewReplacer("listen 80;", "listen "+web+";", "127.0.0.1:9003", listen, "127.0.0.1:3000",
		strings.TrimPrefix(app, "http://")).Replace(string(recipe)))
	for i := range 6 {
		req, err := http.NewRequest("GET", "http://"+web+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Api-Key", "acme")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if want := map[bool]int{true: 200, false: 429}[i < 5]; resp.StatusCode != want {
			t.Errorf("request %d: %s", i+1, resp.Status)
		}
	}
}

// startNginx runs the real nginx until the test ends, and waits until it listens.
func startNginx(t *testing.T, listen, servers string) {
	t.Helper()
	program := needs.Program(t, "nginx", "apt-get install nginx")
	folder := t.TempDir()
	text := fmt.Sprintf("daemon off;\nmaster_process off;\npid %s/pid;\nevents {}\nhttp {\naccess_log off;\n", folder)
	for _, kind := range []string{"client_body", "proxy", "fastcgi", "uwsgi", "scgi"} {
		text += fmt.Sprintf("%s_temp_path %s/%[1]s;\n", kind, folder)
	}
	config := filepath.Join(folder, "nginx.conf")
	if err := os.WriteFile(config, []byte(text+servers+"}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	nginx, err := machine.Start(machine.Task{Program: program, Args: []string{"-p", folder, "-e", "stderr", "-c", config}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nginx.Stop)
	if err := nginx.Listens(t.Context(), "tcp", listen); err != nil {
		t.Fatal(err)
	}
}

// nginxLines are the lines for nginx in the comments of a configuration.
var nginxLines = regexp.MustCompile(`(?m)^  #     (proxy_.*;)$`)

// A site between two nginx: visitors have limits of their own if weir init was told of the one in front, with the lines
// that it writes, and the one behind knows their addresses. Otherwise all of them are one, and weir says so.
func TestInitSiteBehindNginx(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	behind := needs.FreeAddress()
	startNginx(t, behind, fmt.Sprintf("server {\nlisten %s;\nset_real_ip_from 127.0.0.1;\nreal_ip_header X-Forwarded-For;\n"+
		"real_ip_recursive on;\nlocation / { return 200 \"$remote_addr $http_x_forwarded_proto\"; }\n}\n", behind))
	visit := func(t *testing.T, from, web, seen string) int {
		t.Helper()
		dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		client := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}}
		defer client.CloseIdleConnections()
		resp, err := client.Get("http://" + web + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got, err := io.ReadAll(resp.Body); resp.StatusCode == 200 && string(got) != seen+" http" {
			t.Errorf("the service sees %q and not %s, %v", got, seen, err)
		}
		return resp.StatusCode
	}
	for _, c := range []struct {
		name  string
		flags []string
		next  int    // what the second visitor gets when the first is over the limit
		seen  string // the address that the service sees, unless it is the visitor
	}{{"told", []string{"--proxy", "127.0.0.1"}, 200, ""}, {"not told", nil, 429, "127.0.0.1"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gate, web := needs.FreeAddress(), needs.FreeAddress()
			s := startInit(t, "site", append([]string{"--listen", gate, "--upstream", "http://" + behind, "--limit", "3/1h"}, c.flags...)...)
			lines := ""
			for _, m := range nginxLines.FindAllStringSubmatch(s.text, -1) {
				lines += m[1] + "\n"
			}
			if (lines != "") != (c.flags != nil) {
				t.Errorf("the lines for nginx: %q", lines)
			}
			if lines == "" {
				lines = "proxy_pass http://" + gate + ";\nproxy_set_header X-Forwarded-For $remote_addr;\n"
			}
			startNginx(t, web, fmt.Sprintf("server {\nlisten %s;\nlocation / {\n%s}\n}\n", web, lines))
			const first, second = "127.0.0.5", "127.77.0.6"
			for i := range 20 {
				if got := visit(t, first, web, cmp.Or(c.seen, first)); (got == 200) != (i < 15) {
					t.Fatalf("request %d: %d", i+1, got)
				}
			}
			if got := visit(t, second, web, cmp.Or(c.seen, second)); got != c.next {
				t.Errorf("the second visitor: %d", got)
			}
			out, err := exec.Command("weir", "status", "-c", s.file).CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			warned := strings.Contains(string(out), gate+": 127.0.0.1 sends X-Forwarded-For and is not trusted (trusted_proxies).")
			if warned != (c.flags == nil) {
				t.Errorf("%s", out)
			}
		})
	}
}

// Both of Envoy's services answer, and refuse what is over the limit of a key.
func TestInitEnvoy(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	listen := needs.FreeAddress()
	s := startInit(t, "envoy", "--listen", listen, "--limit", "5/1h", "--header", "X-Customer")
	s.shows("^08 01 08 02$")
	s.shows("^08 01 08 02$", "test", "next")
	s.shows("^08 02 08 02$")
	conn, err := grpc.NewClient(listen, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	source := &core.Address_SocketAddress{SocketAddress: &core.SocketAddress{Address: "192.0.2.1"}}
	question := &auth.CheckRequest{Attributes: &auth.AttributeContext{
		Source: &auth.AttributeContext_Peer{Address: &core.Address{Address: source}},
		Request: &auth.AttributeContext_Request{Http: &auth.AttributeContext_HttpRequest{Method: "GET",
			Host: "example.org", Path: "/", Headers: map[string]string{"x-customer": "acme"}}}}}
	limits := &rls.RateLimitRequest{Domain: "edge", Descriptors: []*common.RateLimitDescriptor{{
		Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: "other"}}}}}
	for i := range 6 {
		admitted := i < 5
		checked, err := auth.NewAuthorizationClient(conn).Check(t.Context(), question)
		if err != nil {
			t.Fatal(err)
		}
		if is := codes.Code(checked.GetStatus().GetCode()) == codes.OK; is != admitted {
			t.Errorf("ext_authz, request %d: %v", i+1, checked)
		}
		limited, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), limits)
		if err != nil {
			t.Fatal(err)
		}
		if is := limited.OverallCode == rls.RateLimitResponse_OK; is != admitted {
			t.Errorf("rate limit service, request %d: %v", i+1, limited)
		}
	}
}

// A file that is replaced keeps its owner: the service may run as another user.
func TestInitKeepsOwner(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		needs.Skip(t, "only root can give files away")
	}
	file := filepath.Join(t.TempDir(), "weir.yaml")
	if err := errors.Join(os.WriteFile(file, nil, 0o640), os.Chown(file, 12345, 54321)); err != nil {
		t.Fatal(err)
	}
	if err := writeStarter(file, "text", true); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if is := info.Sys().(*syscall.Stat_t); is.Uid != 12345 || is.Gid != 54321 || info.Mode().Perm() != 0o640 {
		t.Errorf("%d:%d, %v", is.Uid, is.Gid, info.Mode())
	}
}
