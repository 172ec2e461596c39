package app_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"weir/internal/testkit/needs"
)

// text is what a person may write: not ASCII, and with what queries are made of.
const text = "Zürich & Genève = 100% +1; \"ok\""

// innocents are the clients by the place where they name their account.
func innocents(t *testing.T) map[string][]innocent {
	requests := newPython(t, "requests", requestsScript, "apt-get install python3-requests")
	urllib := newPython(t, "urllib.request", urllibScript, "apt-get install python3")
	const json = `{"key": "another", "session": "another"}`
	return map[string][]innocent{
		"header": {
			{"curl", curl("/app/list", "-H", "X-Api-Key: ACCOUNT"), []string{"X-Api-Key: ACCOUNT\r\n"}},
			{"curl HTTP2", curl2("/app/list", "-H", "X-Api-Key: ACCOUNT"), []string{"X-Api-Key: ACCOUNT\r\n"}},
			{"curl offers an upgrade", curl("/app/list", "--http2", "-H", "X-Api-Key: ACCOUNT"),
				[]string{"X-Api-Key: ACCOUNT\r\n"}},
			{"curl spells the name its own way", curl("/app/list", "-H", "x-aPI-kEY:ACCOUNT"),
				[]string{"x-aPI-kEY:ACCOUNT\r\n"}},
			{"curl with a password", curl("/app/list", "-H", "X-Api-Key: ACCOUNT", "-u", "ann:a,b=c"),
				[]string{"Authorization: Basic YW5uOmEsYj1j\r\n"}},
			{"curl with a token of others",
				curl("/app/list?key=1&key=2", "-H", "X-Api-Key: ACCOUNT", "--oauth2-bearer", "of.the.upstream"),
				[]string{"?key=1&key=2 ", "Authorization: Bearer of.the.upstream\r\n"}},
			{"curl sends JSON", curl("/app/list", "-H", "X-Api-Key: ACCOUNT", "-H", "Content-Type: application/json",
				"--data-binary", json),
				[]string{"POST /app/list ", "Content-Length: " + strconv.Itoa(len(json))}},
			{"curl sends chunks", curl("/app/list", "-H", "X-Api-Key: ACCOUNT", "-H", "Transfer-Encoding: chunked",
				"--data", "key=another"),
				[]string{"Transfer-Encoding: chunked\r\n", "Content-Type: application/x-www-form-urlencoded\r\n"}},
			{"requests", requests.get(job{Path: "/app/list", Headers: map[string]string{"X-Api-Key": "ACCOUNT"}}),
				[]string{"X-Api-Key: ACCOUNT\r\n"}},
			{"urllib", urllib.get(job{Path: "/app/list", Headers: map[string]string{"X-Api-Key": "ACCOUNT"}}),
				[]string{"X-Api-Key: ACCOUNT\r\n"}},
			{"Go", program("/app/list", func(q *http.Request, account string) { q.Header.Set("X-Api-Key", account) }),
				[]string{"X-Api-Key: ACCOUNT\r\n"}},
		},
		"bearer": {
			{"curl", curl("/app/list", "-H", "Authorization: Bearer ACCOUNT"),
				[]string{"Authorization: Bearer ACCOUNT\r\n"}},
			{"curl HTTP2", curl2("/app/list", "--oauth2-bearer", "ACCOUNT"),
				[]string{"Authorization: Bearer ACCOUNT\r\n"}},
			{"requests",
				requests.get(job{Path: "/app/list", Headers: map[string]string{"Authorization": "Bearer ACCOUNT"}}),
				[]string{"Authorization: Bearer ACCOUNT\r\n"}},
			{"urllib",
				urllib.get(job{Path: "/app/list", Headers: map[string]string{"authorization": "bearer ACCOUNT"}}),
				[]string{"Authorization: bearer ACCOUNT\r\n"}},
			{"Go",
				program("/app/list", func(q *http.Request,
					account string) {
					q.Header.Set("Authorization", "Bearer "+account)
				}),
				[]string{"Authorization: Bearer ACCOUNT\r\n"}},
		},
		"query": {
			{"curl", curl("/app/list", "-G", "--data-urlencode", "q="+text, "--data-urlencode", "key=ACCOUNT", "-d",
				"empty="),
				[]string{"?q=Z%", "&key=query%", "&empty= "}},
			{"curl HTTP2", curl2("/app/list?q=1", "-G", "--data-urlencode", "key=ACCOUNT"), []string{"?q=1&key=query"}},
			{"requests",
				requests.get(job{Path: "/app/list",
					Params: [][2]string{{"q", text}, {"key", "ACCOUNT"}, {"tag", "a"}, {"tag", "b"}}}),
				[]string{"?q=Z%C3%BCrich+%26+", "&tag=a&tag=b "}},
			{"urllib",
				urllib.get(job{Path: "/app/list", Params: [][2]string{{"key", "ACCOUNT"}, {"q", text}, {"empty", ""}}}),
				[]string{"?key=query%2Furllib", "&empty= "}},
			{"Go", program("/app/list", func(q *http.Request, account string) {
				q.URL.RawQuery = url.Values{"key": {account}, "q": {text}, "keys": {"another"},
					"tag": {"a", "b"}}.Encode()
			}), []string{"?key=query%2FGo", "&keys=another&"}},
		},
		"cookie": {
			{"curl", curl("/app/list", "--cookie", "first=1; session=ACCOUNT; theme=dark"),
				[]string{"Cookie: first=1; session=ACCOUNT; theme=dark\r\n"}},
			{"curl HTTP2", curl2("/app/list", "--cookie", "session=ACCOUNT; sessions=another; theme=dark"),
				[]string{"Cookie: session=ACCOUNT; sessions=another; theme=dark\r\n"}},
			{"curl logs in", curlLogsIn("/app/list"), []string{"Cookie: ", "session=ACCOUNT", "theme=dark"}},
			{"requests", requests.get(job{Path: "/app/list", Cookies: map[string]string{"session": "ACCOUNT"}}),
				[]string{"Cookie: session=ACCOUNT\r\n"}},
			{"requests logs in", requests.get(job{Path: "/app/list", Login: "/login?as=ACCOUNT"}),
				[]string{"Cookie: theme=dark; first=1; session=ACCOUNT\r\n"}},
			{"urllib logs in", urllib.get(job{Path: "/app/list", Login: "/login?as=ACCOUNT"}),
				[]string{"Cookie: theme=dark; first=1; session=ACCOUNT\r\n"}},
			{"Go logs in", programLogsIn("/app/list"), []string{"Cookie: theme=dark; first=1; session=ACCOUNT\r\n"}},
		},
	}
}

// curl sends by the curl of this machine, over HTTP/1.1 unless the arguments say otherwise.
func curl(path string, args ...string) func(*way, string) int {
	return func(w *way, account string) int {
		w.t.Helper()
		return w.curl(path, account, args...)
	}
}

// curl2 does the same over HTTP/2, where there is a gate in front.
func curl2(path string, args ...string) func(*way, string) int {
	return func(w *way, account string) int {
		w.t.Helper()
		switch {
		case w.direct:
			return w.curl(path, account, args...)
		case w.secure():
			return w.curl(path, account, append([]string{"--http2"}, args...)...)
		}
		return w.curl(path, account, append([]string{"--http2-prior-knowledge"}, args...)...)
	}
}

func (w *way) curl(path, account string, args ...string) int {
	w.t.Helper()
	program := needs.Program(w.t, "curl", "apt-get install curl")
	// Neither the settings of whoever runs the test nor a proxy of the machine has a say.
	full := []string{"-q", "--noproxy", "*", "--http1.1", "--max-time", "120", "--cacert", w.cert(), "-sS", "-o",
		os.DevNull, "-w", "%{http_code} %{http_version}"}
	for _, arg := range args {
		full = append(full, strings.ReplaceAll(arg, "ACCOUNT", account))
	}
	cmd := exec.Command(program, append(full, w.base+path)...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		w.t.Fatalf("%q: %v %s", cmd.Args, err, complaint.String())
	}
	code, version, _ := strings.Cut(string(out), " ")
	status, err := strconv.Atoi(code)
	if err != nil {
		w.t.Fatalf("%q says %q", cmd.Args, out)
	}
	if len(args) > 0 && (args[0] == "--http2-prior-knowledge" || args[0] == "--http2" && w.secure()) && version != "2" {
		w.t.Errorf("%q was answered by HTTP/%s", cmd.Args, version)
	}
	return status
}

// curlLogsIn keeps cookies in a file, as scripts do.
func curlLogsIn(path string) func(*way, string) int {
	return func(w *way, account string) int {
		w.t.Helper()
		jar := filepath.Join(w.t.TempDir(), "cookies")
		if status := w.curl("/login?as="+url.QueryEscape(account), account, "-c", jar); status != http.StatusOK {
			w.t.Fatalf("logging in: %d", status)
		}
		return w.curl(path, account, "-b", jar, "-c", jar)
	}
}

// program sends by Go's own client: HTTP/1.1, or HTTP/2 where there is TLS.
func program(path string, prepare func(q *http.Request, account string)) func(*way, string) int {
	return func(w *way, account string) int {
		w.t.Helper()
		q, err := http.NewRequest(http.MethodGet, w.base+path, nil)
		if err != nil {
			w.t.Fatal(err)
		}
		prepare(q, account)
		return w.do(w.client(), q)
	}
}

func (w *way) do(client *http.Client, q *http.Request) int {
	w.t.Helper()
	q.Header.Set("User-Agent", "program/1.0") // its own names the version of HTTP
	res, err := client.Do(q)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		w.t.Fatal(err)
	}
	if w.secure() != (res.ProtoMajor == 2) {
		w.t.Errorf("answered by %s", res.Proto)
	}
	return res.StatusCode
}

// programLogsIn keeps cookies in Go's jar, some of them for a part of the site only.
func programLogsIn(path string) func(*way, string) int {
	return func(w *way, account string) int {
		w.t.Helper()
		jar, err := cookiejar.New(nil)
		if err != nil {
			w.t.Fatal(err)
		}
		client := w.client()
		client.Jar = jar
		status := 0
		for _, to := range []string{"/login?as=" + url.QueryEscape(account), path} {
			q, err := http.NewRequest(http.MethodGet, w.base+to, nil)
			if err != nil {
				w.t.Fatal(err)
			}
			status = w.do(client, q)
		}
		return status
	}
}

// A job is one request that a Python sends, by a session of its own.
type job struct {
	Base    string
	Path    string
	Login   string // where to go before
	Headers map[string]string
	Cookies map[string]string
	Params  [][2]string
	Cert    string
}

const requestsScript = `
import json, sys, requests
for line in sys.stdin:
    j = json.loads(line)
    s = requests.Session()
    s.trust_env = False
    s.verify = j["Cert"]
    if j["Login"]:
        s.get(j["Base"] + j["Login"], timeout=20).raise_for_status()
    r = s.get(j["Base"] + j["Path"], headers=j["Headers"], cookies=j["Cookies"], params=j["Params"] or None, timeout=20)
    print(r.status_code, flush=True)
    s.close()
`

const urllibScript = `
import json, ssl, sys, urllib.error, urllib.parse, urllib.request
for line in sys.stdin:
    j = json.loads(line)
    o = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(),
        urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=j["Cert"])))
    if j["Login"]:
        o.open(j["Base"] + j["Login"], timeout=20).close()
    to = j["Base"] + j["Path"]
    if j["Params"]:
        to += "?" + urllib.parse.urlencode([tuple(p) for p in j["Params"]])
    try:
        with o.open(urllib.request.Request(to, headers=j["Headers"] or {}), timeout=20) as r:
            status = r.status
    except urllib.error.HTTPError as e:
        status = e.code
        e.close()
    print(status, flush=True)
`

// A python is an interpreter that sends what it is told to, one job after the other. It is started when it is needed
// first, and ends with the test.
type python struct {
	t                    *testing.T
	module, script, from string
	mu                   sync.Mutex // held during a job
	in                   io.WriteCloser
	out                  *bufio.Reader
}

func newPython(t *testing.T, module, script, from string) *python {
	return &python{t: t, module: module, script: script, from: from}
}

// get sends a job. ACCOUNT stands for the account.
func (p *python) get(j job) func(*way, string) int {
	return func(w *way, account string) int {
		w.t.Helper()
		p.mu.Lock()
		defer p.mu.Unlock()
		p.start(w.t)
		j.Base, j.Cert = w.base, w.cert()
		raw, err := json.Marshal(j)
		if err != nil {
			w.t.Fatal(err)
		}
		if j.Login != "" {
			account = url.QueryEscape(account) // it stands in a query there
		}
		line := strings.ReplaceAll(string(raw), "ACCOUNT", account)
		if _, err := io.WriteString(p.in, line+"\n"); err != nil {
			w.t.Fatal(err)
		}
		answer, err := p.out.ReadString('\n')
		status, wrong := strconv.Atoi(strings.TrimSpace(answer))
		if err != nil || wrong != nil {
			w.t.Fatalf("%s says %q, %v", p.module, answer, err)
		}
		return status
	}
}

func (p *python) start(t *testing.T) {
	t.Helper()
	if p.in != nil {
		return
	}
	cmd := exec.Command(needs.Python(t, p.module, p.from), "-c", p.script)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaint strings.Builder
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	p.t.Cleanup(func() {
		_ = in.Close()
		if err := cmd.Wait(); err != nil {
			p.t.Errorf("%s: %v %s", p.module, err, complaint.String())
		}
	})
}
