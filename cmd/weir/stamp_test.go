package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"weir/internal/testkit/needs"
	"weir/throttle/stamp"
	"weir/throttle/stamp/payer"
)

// A stampGate asks for stamps, of web and mail, with real issuers.
type stampGate struct {
	issuer *stamp.Issuer
	mail   *stamp.MailIssuer
	asked  chan struct{} // somebody has come for /slow or /hang
	at     time.Time     // the time of mail stamps, which stands still
}

func newStampGate(t *testing.T) *stampGate {
	t.Helper()
	issuer, err := stamp.New(stamp.Options{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	mail, err := stamp.NewMailIssuer(stamp.MailOptions{Algorithm: stamp.SHA256K, Work: 256}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	// At the full hour mail stamps get another seed, and those of two hours ago are out of date. So that this does not
	// happen to the commands meanwhile, which have the machine's clock, the issuer is ahead of it.
	return &stampGate{issuer: issuer, mail: mail, asked: make(chan struct{}, 1), at: time.Now().Add(5 * time.Minute)}
}

func (g *stampGate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	work, text := stamp.Work(256), ""
	switch r.URL.Path {
	case "/missing":
		http.NotFound(w, r)
		return
	case "/hang":
		g.asked <- struct{}{}
		<-r.Context().Done()
		return
	case "/late":
		<-r.Context().Done()
		return
	case "/cut":
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "only this")
		return
	case "/moved":
		http.Redirect(w, r, "/page", http.StatusFound)
		return
	case "/params":
		text, _ := g.mail.Params(g.at).MarshalJSON()
		w.Write(text)
		return
	case "/large":
		io.WriteString(w, strings.Repeat(" ", stamp.MaxMailParams+1))
		return
	case "/odd":
		text = "AAAA"
	case "/hard":
		work = stamp.MaxWork
	case "/slow":
		work = 1 << 36
		defer func() { g.asked <- struct{}{} }()
	default:
		_, err := g.issuer.Verify(r.Context(), time.Now(), r.Header.Get(payer.StampHeader), stamp.Demand{Covers: 50})
		if err == nil && r.URL.Path != "/never" {
			fmt.Fprintf(w, "%s for %s with %q\n", r.URL.Path, r.UserAgent(), r.Header["X-Odd"])
			return
		}
	}
	if text == "" {
		var err error
		if text, err = g.issuer.Issue(time.Now(), stamp.Ask{Work: work, Lifetime: 5 * time.Minute}); err != nil {
			panic(err)
		}
	}
	w.Header().Set(payer.ChallengeHeader, text)
	w.WriteHeader(http.StatusServiceUnavailable)
	io.WriteString(w, "pay first\n")
}

// TestStampScripts runs the scripts about stamps. GATE is a gate that asks for them; what is made is verified with the
// library.
func TestStampScripts(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	g := newStampGate(t)
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script/stamp",
		Setup: func(e *testscript.Env) error {
			e.Setenv("GORACE", "atexit_sleep_ms=0") // else each command of a race build takes a second to end
			e.Setenv("GOGC", "off")                 // a third of the time of a command goes into collecting its own flags
			e.Setenv("GATE", server.URL)
			wrapper, err := wrapperInDocs()
			if err != nil {
				return err
			}
			return os.WriteFile(e.WorkDir+"/weir-sendmail", wrapper, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "signal": sendSignal,
			"challenge": g.challenge, "paid": g.paid, "params": g.params, "stamped": g.stamped, "mailto": mailTo,
			"huge":  hugeMail,
			"asked": func(*testscript.TestScript, bool, []string) { <-g.asked },
		},
	})
}

// wrapperInDocs is the script that stands in for sendmail, as the page about mail stamps has it.
func wrapperInDocs() ([]byte, error) {
	page, err := os.ReadFile("../../docs/mail-stamps.md")
	if err != nil {
		return nil, err
	}
	_, script, found := bytes.Cut(page, []byte("```sh\n#!"))
	script, _, end := bytes.Cut(script, []byte("```"))
	if !found || !end {
		return nil, errors.New("docs/mail-stamps.md has no script")
	}
	return append([]byte("#!"), script...), nil
}

// challenge writes a challenge into a file.
func (g *stampGate) challenge(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: challenge FILE WORK [ALGORITHM] [expired]")
	}
	ask := stamp.Ask{Lifetime: 5 * time.Minute}
	now := time.Now()
	ts.Check(ask.Work.UnmarshalText([]byte(args[1])))
	for _, a := range args[2:] {
		if a == "expired" {
			now = now.Add(-ask.Lifetime - time.Second)
			continue
		}
		ts.Check(ask.Algorithm.UnmarshalText([]byte(a)))
	}
	text, err := g.issuer.Issue(now, ask)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text+"\n"), 0o600))
}

// paid verifies a stamp that stands in a file, alone or in JSON.
func (g *stampGate) paid(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 1 {
		ts.Fatalf("usage: paid FILE")
	}
	text := regexp.MustCompile(`[\w-]+\.[\w-]{20,}`).FindString(ts.ReadFile(args[0]))
	_, err := g.issuer.Verify(context.Background(), time.Now(), text, stamp.Demand{})
	ts.Check(err)
}

// params writes parameters into a file.
func (g *stampGate) params(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: params FILE WORK HOURS-AGO")
	}
	ago, err := strconv.Atoi(args[2])
	ts.Check(err)
	p := g.mail.Params(g.at.Add(-time.Duration(ago) * time.Hour))
	ts.Check(p.Work.UnmarshalText([]byte(args[1])))
	text, err := p.MarshalJSON()
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o600))
}

// stamped verifies that a message has good stamps for these recipients, no others, and that it is otherwise the message
// it was.
func (g *stampGate) stamped(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: stamped FILE ORIGINAL RECIPIENT...")
	}
	text, original, recipients := ts.ReadFile(args[0]), ts.ReadFile(args[1]), args[2:]
	m, err := mail.ReadMessage(strings.NewReader(text))
	ts.Check(err)
	body, err := io.ReadAll(m.Body)
	ts.Check(err)
	stamps := m.Header[stamp.MailHeader]
	if len(stamps) != len(recipients) {
		ts.Fatalf("%d stamps for %d recipients", len(stamps), len(recipients))
	}
	ts.Check(errors.Join(g.mail.VerifyEach(context.Background(), g.at, stamps,
		stamp.MailBinding{Message: stamp.BodyID(body)}, recipients)...))
	if rest := regexp.MustCompile(`(?m)^`+stamp.MailHeader+`:.*\n( .*\n)*`).ReplaceAllString(text,
		""); rest != original {
		ts.Fatalf("the message was changed:\n%q\n%q", rest, original)
	}
}

// mailTo writes a message to so many recipients.
func mailTo(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: mailto FILE NUMBER")
	}
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	var b strings.Builder
	b.WriteString("To: r0@example.net")
	for i := range n - 1 {
		fmt.Fprintf(&b, ",\n r%d@example.net", i+1)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()+"\n\nhello\n"), 0o600))
}

// hugeMail writes a message of so many bytes, most of which are zeros that take no room.
func hugeMail(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: huge FILE BYTES")
	}
	n, err := strconv.ParseInt(args[1], 10, 64)
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte("To: bob@example.net\n\n"), 0o600))
	ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
}

// TestBar: on a terminal work is seen to go on, and nothing is left behind; in a pipe there is nothing to see.
func TestBar(t *testing.T) {
	b := &bar{what: "paying", width: 80}
	for _, c := range []struct {
		share  float64
		passed time.Duration
		width  int
		want   string
	}{
		{0.25, 10 * time.Second, 80, "paying [==========                              ]  25%  about 30s left"},
		{0, time.Second, 60, "paying [                       ]   0%  more than a day left"},
		{1.2, time.Minute, 80, "paying [======================================= ]  99%  any moment now"},
		{0.5, time.Second, 30, "paying  50%  about 1s left"},
		{0.5, time.Second, 12, "paying  50%"},
		{0.5, time.Second, 3, "paying"},
	} {
		b.width = c.width
		if got := b.line(c.share, c.passed); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}

	var out bytes.Buffer
	none := (&terminal{err: &out}).bar("paying")
	none.show(1, 2)
	none.clear()
	t.Setenv("TERM", "xterm")
	b = (&terminal{err: &out, errTTY: true}).bar("paying")
	b.show(1, 10)
	b.clear()
	if out.Len() > 0 {
		t.Errorf("too early: %q", out.String())
	}
	b.show(1, 10)
	b.began = b.began.Add(-time.Minute)
	b.show(2, 10)
	b.show(3, 10) // too soon after it
	b.clear()
	if got := out.String(); !strings.HasPrefix(got, "\r\x1b[Kpaying [") || !strings.HasSuffix(got, " left\r\x1b[K") ||
		strings.Count(got, "paying") != 1 {
		t.Errorf("%q", got)
	}
}
