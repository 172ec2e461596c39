package app_test

import (
	"errors"
	"fmt"
	gosmtp "net/smtp"
	"net/textproto"
	"os"
	"strings"
	"testing"
	"time"

	"weir/config"
	"weir/console"
	"weir/internal/clock"
	"weir/internal/testkit/needs"
	"weir/internal/testkit/postfix"
)

// A besideExim is a weir beside a real Exim.
type besideExim struct {
	*beside
	mta    *eximServer
	folder string
	at     map[string]string
}

// newBesideExim starts weir as examples/postfix.yaml says, and a real Exim as examples/exim.conf says: nothing but the
// addresses is changed, and what a test says with pairs of changes to weir's file.
func newBesideExim(t *testing.T, changes ...string) *besideExim {
	t.Helper()
	world := postfix.NewSink(t)
	at := map[string]string{"127.0.0.1:2526": needs.FreeAddress(), "127.0.0.1:2600": world.Addr()}
	b := &besideExim{at: at, folder: t.TempDir()}
	p := &post{t: t, clock: clock.NewFake(noon)}
	p.start(b.config(t, changes...))
	if _, err := console.ShadowCall.Ask(t.Context(), p.control,
		console.Shadow{Throttles: []string{"outgoing"}}); err != nil {
		t.Fatal(err)
	}
	mta, submission := startExim(t, at)
	b.mta, b.beside = mta, &beside{post: p, submission: submission, world: world, log: mta.Log}
	return b
}

// config is examples/postfix.yaml with the addresses of the test, and with changes.
func (b *besideExim) config(t *testing.T, changes ...string) *config.Config {
	t.Helper()
	text := exampleText(t, "postfix.yaml", b.at, append(changes, "./weir-data", b.folder)...)
	host, port, _ := strings.Cut(b.at["127.0.0.1:2526"], ":")
	text = strings.ReplaceAll(text, "[127.0.0.1]:2526", "["+host+"]:"+port)
	cfg, err := config.Parse("weir.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// startExim starts examples/exim.conf at addresses of the test.
func startExim(t *testing.T, at map[string]string) (mta *eximServer, submission string) {
	t.Helper()
	submission = needs.FreeAddress()
	back := func(address, separator string) string { return strings.ReplaceAll(address, ":", separator) }
	if at["127.0.0.1:10025"] == "" {
		at["127.0.0.1:10025"] = needs.FreeAddress()
	}
	returns := at["127.0.0.1:10025"]
	_, returnPort, _ := strings.Cut(returns, ":")
	text := exampleText(t, "exim.conf", at,
		"0.0.0.0.587", back(submission, "."),
		"127.0.0.1.10025", back(returns, "."),
		"WEIR_BACK = 10025", "WEIR_BACK = "+returnPort,
		"127.0.0.1::2526", back(at["127.0.0.1:2526"], "::"),
		"127.0.0.1::2600", back(at["127.0.0.1:2600"], "::"))
	return runExim(t, text, submission), submission
}

// refusedWith reports whether an error is a server's answer that begins so.
func refusedWith(err error, answer string) bool {
	var said *textproto.Error
	return errors.As(err, &said) && strings.HasPrefix(fmt.Sprintf("%d %s", said.Code, said.Msg), answer)
}

// TestBesideExim: a bulk sender's messages wait in weir and come back to Exim, another user's pass, and a virus is
// stopped.
func TestBesideExim(t *testing.T) {
	t.Parallel()
	b := newBesideExim(t, "stop: 20", "stop: 8") // fewer messages show the same
	if err := gosmtp.SendMail(b.submission, nil, "eve@example.org", []string{"x@example.net"}, []byte("\r\n")); !refusedWith(err,
		"550 relay not permitted") {
		t.Errorf("without logging in: %v", err)
	}
	if refused := b.isAVirus(); !refusedWith(refused, "550 5.7.1 sending is stopped") {
		t.Errorf("she is not stopped: %v", refused)
	}
	if err := b.send("bob", "friend@example.net"); err != nil {
		t.Errorf("another user's mail passes: %v", err)
	}
	// One message to many: all of its recipients are judged, and 15 of them are let go at once.
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("member%d@example.net", i))
	}
	if err := b.send("bob", many...); err != nil {
		t.Fatal(err)
	}
	b.waits(9 + 5)
	if log := b.log(); strings.Contains(log, "panic") || strings.Contains(log, "failed to expand") {
		t.Errorf("Exim complains:\n%s", log)
	}
}

// TestEximWithoutFilter: what may not go on at once is deferred or refused by Exim, or frozen in its queue.
func TestEximWithoutFilter(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	const filter = `filter: "weir:[127.0.0.1]:2526"`
	b := newBesideExim(t, filter, "over: defer")
	for i, c := range []struct{ over, want string }{
		{"defer", "450 4.7.1 You write"}, {"reject", "550 5.7.1 You write"}, {"hold", ""},
	} {
		if err := b.app.Reload(b.config(t, filter, "over: "+c.over)); err != nil {
			t.Fatal(err)
		}
		b.runs(time.Hour) // and the credit is full again
		if err := b.send("ann", fmt.Sprintf("one%d@example.net", i)); err != nil {
			t.Fatal(err)
		}
		b.reached(2*i + 1)
		err := b.send("ann", fmt.Sprintf("two%d@example.net", i))
		if c.want == "" && err != nil || c.want != "" && !refusedWith(err, c.want) {
			t.Fatalf("over: %s: the second: %v, want %q", c.over, err, c.want)
		}
		if err := b.send("bob", fmt.Sprintf("friend%d@example.net", i)); err != nil {
			t.Errorf("over: %s: another user: %v", c.over, err)
		}
		if got := b.reached(2 * (i + 1)); len(got) != 2*(i+1) {
			t.Errorf("over: %s: %q arrived", c.over, got)
		}
		if held := strings.Contains(b.mta.Queued(t), "*** frozen ***"); held != (c.over == "hold") {
			t.Errorf("over: %s: frozen: %v", c.over, held)
		}
	}
}

// TestEximWithoutWeir: while weir is away, Exim defers the messages of users, and takes them as soon as it is back.
func TestEximWithoutWeir(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	world := postfix.NewSink(t)
	at := map[string]string{"127.0.0.1:2526": needs.FreeAddress(), "127.0.0.1:2600": world.Addr(),
		"127.0.0.1:10040": needs.FreeAddress()}
	_, submission := startExim(t, at)
	if err := submit(submission, "ann", "one@example.net"); !refusedWith(err, "451 4.3.0 ") {
		t.Errorf("without weir: %v", err)
	}
	if len(world.Mails()) != 0 {
		t.Error("it went out uncounted")
	}
	cfg, err := config.Parse("weir.yaml", fmt.Appendf(nil, `
data: %s
console: {listen: "off"}
postfix: [{listen: %q, realm: keep, throttles: [outgoing]}]
throttles: {outgoing: {mail: {rate: 1/m}}}
`, t.TempDir(), at["127.0.0.1:10040"]))
	if err != nil {
		t.Fatal(err)
	}
	(&post{t: t, clock: clock.NewFake(noon)}).start(cfg)
	if err := submit(submission, "ann", "one@example.net"); err != nil {
		t.Error(err)
	}
	world.Await(1)
}

// TestEximRecipeInDoc: the page shows the same lines as the file.
func TestEximRecipeInDoc(t *testing.T) {
	needs.Unwatched(t)
	t.Parallel()
	page, err := os.ReadFile("../docs/exim.md")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../examples/exim.conf")
	if err != nil {
		t.Fatal(err)
	}
	file := map[string]bool{}
	for line := range strings.Lines(string(raw)) {
		file[strings.TrimSpace(line)] = true
	}
	shown := 0
	for i, block := range strings.Split(string(page), "```") {
		if i%2 == 0 || !strings.HasPrefix(block, "text\n") {
			continue
		}
		for line := range strings.Lines(strings.TrimPrefix(block, "text\n")) {
			if line = strings.TrimSpace(line); line != "" && !file[line] {
				t.Errorf("the page shows %q, which is not in examples/exim.conf", line)
			}
			shown++
		}
	}
	if shown < 20 {
		t.Errorf("the page shows only %d lines", shown)
	}
}
