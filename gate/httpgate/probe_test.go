package httpgate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/http1"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/recorder"
)

// A probe is what a client writes in one piece, what it is answered, and what arrives at the upstream.
type probe struct {
	name    string
	say     string
	answers string // status codes; "." where the connection is closed before the last request is read
	arrives string // requests as shown has them, separated by line ends
	half    bool   // the client ends in the middle of it: it may be answered or not, as it has left
}

// last is written behind each probe. Whether it is read as a request tells whether both sides agree on where the probe
// ends.
const last = "GET /last HTTP/1.1\r\nHost: last\r\nConnection: close\r\n\r\n"

// probePatience bounds how long a probe waits for bytes that must come. A peer of weir may never send them.
func probePatience() time.Duration {
	if os.Getenv("WEIR_PROBE") == "" {
		return patience
	}
	return time.Second
}

// run writes the probe on a connection of its own, in pieces, and returns the status codes that come back.
func (p *probe) run(t *testing.T, addr string, piece int) string {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(probePatience()))
	go func() { // it may be answered, and over, before all of it is written
		said := p.say
		if !p.half {
			said += last
		}
		for rest := []byte(said); len(rest) > 0; {
			n, err := c.Write(rest[:min(piece, len(rest))])
			if rest = rest[n:]; err != nil {
				return
			}
		}
		if p.half {
			_ = c.(*net.TCPConn).CloseWrite()
		}
	}()
	var codes []string
	br := bufio.NewReader(c)
	asked := p.say
	for {
		r := &http.Request{Method: http.MethodGet}
		if strings.HasPrefix(asked, "HEAD ") {
			r.Method = http.MethodHead
		}
		res, err := http.ReadResponse(br, r)
		if timedOut(err) {
			codes = append(codes, "stuck")
		}
		if err != nil {
			return strings.Join(codes, " ")
		}
		codes = append(codes, strconv.Itoa(res.StatusCode))
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return strings.Join(append(codes, "cut"), " ")
		}
		if res.StatusCode >= 200 {
			asked = ""
		}
	}
}

// A peer stands behind the gate and keeps what arrives.
type peer interface {
	Addr() string
	Take() []recorder.Request
}

// A naive peer reads requests as careless servers do: a line ends with LF, names have spaces around them and
// underscores in them, lines are folded, and of two framings one wins. Whatever it sees that a strict peer does not see
// has been smuggled.
type naive struct {
	net.Listener
	chunks bool // chunks win over a length
	mu     sync.Mutex
	came   []recorder.Request
}

func startNaive(t testing.TB, chunks bool) *naive {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &naive{Listener: l, chunks: chunks}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go n.serve(c)
		}
	}()
	return n
}

func (n *naive) Addr() string { return n.Listener.Addr().String() }

func (n *naive) Take() []recorder.Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	taken := n.came
	n.came = nil
	return taken
}

func (n *naive) serve(c net.Conn) {
	defer c.Close()
	br := bufio.NewReader(c)
	for {
		r, err := n.read(br, c)
		if err != nil {
			return
		}
		n.mu.Lock()
		n.came = append(n.came, r)
		n.mu.Unlock()
		body := "naive\n"
		if r.Method() == http.MethodHead {
			body = ""
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n"+body); err != nil {
			return
		}
	}
}

func (n *naive) read(br *bufio.Reader, c net.Conn) (r recorder.Request, err error) {
	var length int64
	var chunked bool
	for {
		line, err := br.ReadString('\n')
		if err != nil {
			return r, err
		}
		if line = strings.TrimRight(line, "\r\n"); line == "" && len(r.Head) > 0 {
			break
		} else if line == "" {
			continue
		}
		r.Head = append(append(r.Head, line...), "\r\n"...)
		name, value, _ := strings.Cut(strings.ToLower(line), ":")
		switch strings.ReplaceAll(strings.TrimSpace(name), "_", "-") {
		case "content-length":
			length, _ = strconv.ParseInt(strings.TrimSpace(value), 10, 64)
		case "transfer-encoding":
			chunked = strings.Contains(value, "chunked")
		case "expect":
			_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		}
	}
	r.Head = append(r.Head, "\r\n"...)
	if chunked && (n.chunks || length == 0) {
		return r, naiveChunks(&r, br)
	}
	r.Body = make([]byte, min(max(length, 0), 1<<20))
	_, err = io.ReadFull(br, r.Body)
	return r, err
}

func naiveChunks(r *recorder.Request, br *bufio.Reader) error {
	line := func() (string, error) {
		line, err := br.ReadString('\n')
		r.Framed = append(r.Framed, line...)
		return strings.TrimSpace(line), err
	}
	for {
		digits, err := line()
		if err != nil {
			return err
		}
		digits, _, _ = strings.Cut(digits, ";")
		size, _ := strconv.ParseInt(strings.TrimSpace(digits), 16, 64)
		if size <= 0 || size > 1<<20 {
			break
		}
		chunk := make([]byte, size)
		if _, err := io.ReadFull(br, chunk); err != nil {
			return err
		}
		r.Body, r.Framed = append(r.Body, chunk...), append(r.Framed, chunk...)
		if _, err := line(); err != nil {
			return err
		}
	}
	for {
		if trailer, err := line(); err != nil || trailer == "" {
			return err
		}
	}
}

// shown is a request in a line: method, target, host, how the body is framed, the body, the names of trailers, and the
// headers. Of the headers that the gate writes itself, only one that is missing or says something else than the truth
// is shown.
func shown(r recorder.Request) string {
	host := strings.Join(r.Values("Host"), "+")
	if _, port, ok := strings.Cut(host, "127.0.0.1:"); ok && port != "" { // its own
		host = "upstream"
	}
	all := []string{r.Method(), r.Target(), host}
	truth := map[string]string{"x-forwarded-for": "127.0.0.1", "x-forwarded-host": host, "x-forwarded-proto": "http"}
	quoted := host
	if !http1.IsToken(host) {
		quoted = strconv.Quote(host)
	}
	truth["forwarded"] = "for=127.0.0.1;host=" + quoted + ";proto=http"
	if host == "upstream" { // the client named none
		truth["forwarded"] = "for=127.0.0.1;proto=http"
		delete(truth, "x-forwarded-host")
	}
	var framing, others []string
	id := false
	for _, line := range r.Lines() {
		name, value, _ := strings.Cut(line, ":")
		name, value = strings.ToLower(name), strings.Trim(value, " \t")
		if want, ours := truth[name]; ours && want == value {
			delete(truth, name)
			continue
		}
		switch {
		case name == "host":
		case name == "content-length":
			framing = append(framing, value)
		case name == "transfer-encoding":
			framing = append(framing, strings.ToLower(value))
		case name == "x-request-id" && len(value) >= 16 && !id:
			id = true
		case name == "weir-hops" && value == "1":
		default:
			others = append(others, line)
		}
	}
	for name := range truth {
		others = append(others, "no "+name)
	}
	if !id {
		others = append(others, "no x-request-id")
	}
	slices.Sort(others)
	if all = append(all, framing...); len(framing) > 0 {
		all = append(all, strconv.QuoteToASCII(string(r.Body)))
	}
	text := strings.Join(all, " ")
	const end = "\r\n0\r\n"
	framed := "\r\n" + string(r.Framed)
	if at := strings.LastIndex(framed, end); at >= 0 && slices.Contains(framing, "chunked") {
		for line := range strings.SplitSeq(strings.TrimSpace(framed[at+len(end):]), "\r\n") {
			if line != "" {
				text += " ~" + line
			}
		}
	}
	for _, line := range others {
		text += " +" + line
	}
	return text
}

// tell returns what arrived, and whether the last request did.
func tell(came []recorder.Request) (arrived string, whole bool) {
	var all []string
	for _, r := range came {
		all = append(all, shown(r))
	}
	if n := len(all); n > 0 && all[n-1] == "GET /last last" {
		return strings.Join(all[:n-1], "\n"), true
	}
	return strings.Join(all, "\n"), false
}

// oneLiner shows what a probe says in a line.
var oneLiner = strings.NewReplacer(evil, "EVIL|", "\r\n", "|", "\r", "<CR>", "\n", "<LF>", "\x00", "<NUL>", "\t",
	"<TAB>")

// TestProbes: raw requests over real sockets, with servers behind that keep what arrives, one strict and two that are
// easily smuggled to. With -v it prints a table. With WEIR_PROBE=nginx an nginx stands in weir's place, and with
// WEIR_PROBE=host:port any other server, of which only its answers are known. Then the table tells what differs, and
// nothing fails.
func TestProbes(t *testing.T) {
	t.Parallel()
	strict := recorder.Start(t)
	peers := []peer{strict, startNaive(t, false), startNaive(t, true)}
	instead := os.Getenv("WEIR_PROBE")
	addrs := make([]string, len(peers))
	for i, p := range peers {
		switch addrs[i] = instead; instead {
		case "":
			addrs[i] = start(t, Options{Upstream: to("http://" + p.Addr()),
				Account: []string{"header:X-Api-Key", "source"},
				Bounds:  Bounds{Header: probeHead, Body: probeBody}}).addr
		case "nginx":
			addrs[i] = startNginx(t, p.Addr())
		}
	}
	var table strings.Builder
	all := requestProbes()
	if len(all) < 150 {
		t.Errorf("%d probes are too few", len(all))
	}
	for _, p := range all {
		note := "as it should be"
		var first, firstCodes string
		for i := range peers {
			codes := p.run(t, addrs[i], []int{1 << 20, 1, 7}[i])
			got, whole := tell(peers[i].Take())
			if before, ok := strings.CutSuffix(codes, "200"); ok && whole {
				codes = strings.TrimSuffix(before, " ")
			} else if !p.half {
				codes = strings.TrimPrefix(codes+" .", " ")
			}
			if i == 0 {
				first, firstCodes = got, codes
			}
			if codes != p.answers && !p.half || got != p.arrives {
				note = "weir: " + p.answers
				if instead == "" {
					t.Errorf("%s, behind it %T: %.300q is answered %q, want %q\n%s\narrives, want\n%s",
						p.name, peers[i], p.say, codes, p.answers, got, p.arrives)
				}
			}
			if asked := "\nGET /evil "; strings.Contains("\n"+got, asked) && !strings.Contains("\n"+p.arrives, asked) {
				note = "EVIL arrives"
			}
		}
		first = strings.ReplaceAll(first, "\n", " & ")
		fmt.Fprintf(&table, "%-45s %-60.60s %-16s %-21s %.80s\n", p.name, oneLiner.Replace(p.say), firstCodes, note,
			first)
	}
	for _, err := range strict.Faults() { // a body that breaks off is one that was refused
		if !errors.Is(err, io.ErrUnexpectedEOF) && instead == "" {
			t.Error(err)
		}
	}
	t.Logf("%d requests\n%s", len(all), table.String())
}

// nginxInstead is nginx as its manual has it, and bounds as weir has them in these tests.
const nginxInstead = `daemon off;
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
    client_header_buffer_size 1k;
    large_client_header_buffers 4 2k;
    client_max_body_size 4k;
    lingering_timeout 1s;
    upstream behind { server BEHIND; keepalive 8; }
    server {
        listen LISTEN;
        location / {
            proxy_pass http://behind;
            proxy_http_version 1.1;
            proxy_request_buffering off;
            proxy_set_header Connection "";
            proxy_set_header Host $http_host;
            proxy_set_header X-Forwarded-For $remote_addr;
            proxy_set_header X-Forwarded-Host $http_host;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_set_header X-Request-Id $request_id;
            proxy_set_header Forwarded "for=$remote_addr;host=$http_host;proto=$scheme";
        }
    }
}
`

// startNginx starts an nginx in front of a server, and returns where it listens. It ends with the test.
func startNginx(t *testing.T, behind string) string {
	t.Helper()
	return startNginxIn(t, t.TempDir(), nginxInstead, behind)
}

// startNginxIn is startNginx with a configuration, in a folder.
func startNginxIn(t *testing.T, folder, template, behind string) string {
	t.Helper()
	program := needs.Program(t, "nginx", "apt-get install nginx")
	at := needs.FreeAddress()
	config := filepath.Join(folder, "config")
	text := strings.NewReplacer("FOLDER", folder, "LISTEN", at, "BEHIND", behind).Replace(template)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-p", folder, "-e", filepath.Join(folder, "log"), "-c", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
	})
	needs.Wait(t, "nginx listens", func() bool {
		c, err := net.Dial("tcp", at)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return at
}
