package nexthop

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const bob = "bob@example.net"

// TestTrouble: whatever a server does, each recipient has the right result.
func TestTrouble(t *testing.T) {
	huge := strings.Repeat("x", 100_000)
	many := strings.TrimSuffix(strings.Repeat("250-more\r\n", 1000), "\r\n")
	for name, c := range map[string]struct {
		script []string
		want   string
	}{
		"good": {script(hello, oneMail, goodDot, "hang"), "done 2.0.0 queued as 7"},
		"good, slow": {script(helloSlow, "< MAIL", "> 250 ok", "< RCPT", "> 250 ok", "< DATA",
			"> 354 go", goodDot, "hang"), "done 2.0.0"},
		"old": {script("> 220 here", "< EHLO", "> 502 what?", "< HELO me", "> 250 here",
			"< MAIL", "> 250 ok", "< RCPT", "> 250 ok", "< DATA", "> 354 go", goodDot, "hang"), "done 2.0.0"},
		"without words": {script("> 220", "< EHLO", "> 250", "< MAIL", "> 250", "< RCPT", "> 250",
			"< DATA", "> 354", "text", "> 250", "hang"), "done 2.0.0"},
		"hangs up":        {script(), "later 4.4.2 waiting for the greeting: the server hung up"},
		"half a greeting": {script(">220 he"), "later 4.4.2 in the middle of a line"},
		"no SMTP": {script("> SSH-2.0-OpenSSH_9.9", "hang"),
			"later 4.5.0 the server does not follow the protocol: \"SSH-2.0-OpenSSH_9.9\""},
		"a huge greeting":     {script(">"+huge, "hang"), "later 4.5.0 a line of more than 4096 bytes"},
		"an endless greeting": {script("> "+many, "hang"), "later 4.5.0 a reply of more than 128 lines"},
		"closed": {script("> 554 5.3.2 no mail here", "hang"),
			"later 4.3.2 the server takes no connections: no mail here"},
		"busy":                    {script("> 421 4.7.0 too many", "hang"), "later 4.7.0 too many"},
		"dies after the greeting": {script("> 220 here"), "later 4.4.2 greeting the server"},
		"refuses to be greeted": {script("> 220 here", "< EHLO", "> 550 who?", "< HELO", "> 550 who?", "hang"),
			"later 4.0.0 refuses the greeting: who?"},
		"another code inside": {script("> 220 here", "< EHLO", "> 250-here\r\n251 there", "hang"),
			"later 4.5.0 does not follow the protocol"},
		"dies at MAIL":   {script(hello, "< MAIL"), "later 4.4.2"},
		"resets at MAIL": {script(hello, "< MAIL", "reset"), "later 4.4.2"},
		"MAIL, later": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 451 4.3.0 sorry",
			"> 503 no sender", "> 503 no sender", "hang"), "later 4.3.0 sorry"},
		"MAIL, never": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 550 5.7.1 not you",
			"> 503 no sender", "> 503 no sender", "hang"), "failed 5.7.1 not you"},
		"MAIL, never, but go ahead": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 550 5.7.1 not you", "> 503 no",
			"> 354 go", "< .", "> 554 nobody", "hang"), "failed 5.7.1 not you"},
		"MAIL, never, to him, go": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 550 5.7.1 not you", "> 250 ok",
			"> 354 go", "hang"), "failed 5.7.1 not you"},
		"MAIL, never, slow": {script(helloSlow, "< MAIL", "> 550 5.7.1 not you", "hang"),
			"failed 5.7.1 not you"},
		"MAIL, closed": {script(hello, "< MAIL", "> 421 4.3.2 closing"),
			"later 4.3.2 closes the connection: closing"},
		"MAIL, half": {script(hello, "< MAIL", ">250 o"), "later 4.4.2"},
		"MAIL, nonsense": {script(hello, "< MAIL", "> hello", "hang"),
			"later 4.5.0 waiting for the answer to MAIL: the server does not follow the protocol"},
		"MAIL, go on":  {script(hello, "< MAIL", "> 354 go on", "hang"), "later 4.5.0 does not follow the protocol"},
		"MAIL, huge":   {script(hello, "< MAIL", ">250 "+huge, "hang"), "later 4.5.0"},
		"dies at RCPT": {script(hello, "< MAIL", "< RCPT", "> 250 ok"), "later 4.4.2"},
		"RCPT, later": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 450 4.2.1 busy",
			"> 554 nobody", "hang"), "later 4.2.1 busy"},
		"RCPT, never": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 550 unknown",
			"> 554 nobody", "hang"), "failed 5.0.0 unknown"},
		"RCPT, never, but go ahead": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 550 5.1.1 unknown",
			"> 354 go", "< .", "> 554 nobody", "hang"), "failed 5.1.1 unknown"},
		"RCPT, never, and then died": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 550 5.1.1 unknown",
			"> 354 go", "< ."), "failed 5.1.1 unknown"},
		"RCPT, never, slow": {script(helloSlow, "< MAIL", "> 250 ok", "< RCPT", "> 550-5.1.1 un\r\n550 5.1.1 known",
			"hang"), "failed 5.1.1 un known"},
		"RCPT, closed": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 421 closing"),
			"later 4.0.0 closing"},
		"RCPT, forwards": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 251 will forward",
			"> 354 go", goodDot, "hang"), "done 2.0.0"},
		"dies at DATA": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 250 ok"),
			"later 4.4.2 answer to DATA"},
		"DATA, later": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 250 ok", "> 451 4.3.1 full",
			"hang"), "later 4.3.1 full"},
		"DATA, never": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 250 ok", "> 554 5.5.1 no",
			"hang"), "failed 5.5.1 no"},
		"DATA, done already": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 250 ok", "> 250 done",
			"hang"), "later 4.5.0 does not follow the protocol"},
		"the dot, later": {script(hello, oneMail, "text", "> 451 4.3.0 try again", "hang"),
			"later 4.3.0 try again"},
		"the dot, never":  {script(hello, oneMail, "text", "> 554 5.7.1 spam", "hang"), "failed 5.7.1 spam"},
		"the dot, closed": {script(hello, oneMail, "text", "> 421 4.3.2 closing"), "later 4.3.2 closing"},
		"the dot, silence": {script(hello, oneMail, "text"),
			"ambiguous 4.4.2 no answer after the end of the text: the server hung up"},
		"the dot, reset": {script(hello, oneMail, "text", "reset"), "ambiguous 4.4.2"},
		"the dot, half": {script(hello, oneMail, "text", ">250 2.0.0 queu"),
			"ambiguous 4.4.2 in the middle of a line"},
		"the dot, nonsense": {script(hello, oneMail, "text", "> thank you", "hang"), "ambiguous 4.4.2 does not follow the protocol"},
		"the dot, huge": {script(hello, oneMail, "text", ">250 "+huge, "hang"),
			"ambiguous 4.4.2 more than 4096"},
		"the dot, go on": {script(hello, oneMail, "text", "> 354 go on", "hang"), "ambiguous 4.4.2 does not follow the protocol"},
		"a wrong status": {script(hello, oneMail, "text", "> 250 5.1.1 fine", "hang"), "done 2.0.0 5.1.1 fine"},
		"strange characters": {script(hello, oneMail, "text", "> 554 5.6.0 a\x00b\x1b[31m\xff", "hang"),
			"failed 5.6.0 a b [31m?"},
		"says more than asked": {script(hello, oneMail, "text", "> 250 ok\r\n250 ok", "hang"), "done 2.0.0 ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScripted(t, c.script)
			client := newClient(t, Env{}, nil, s.address)
			got := client.Deliver(soon(t), job(bob))
			want(t, got, c.want)
			if got[0].Server != s.address {
				t.Errorf("said by %q", got[0].Server)
			}
		})
	}
}

// TestSlowServers: each step has its time.
func TestSlowServers(t *testing.T) {
	for name, c := range map[string]struct {
		script []string
		after  time.Duration
		want   string
	}{
		"greeting": {script("hang"), 5 * time.Minute, "later 4.4.2 the server took too long"},
		"MAIL":     {script(hello, "hang"), 5 * time.Minute, "later 4.4.2 MAIL: the server took too long"},
		"DATA": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 250 ok", "hang"), 5 * time.Minute,
			"later 4.4.2 DATA: the server"},
		"dot": {script(hello, oneMail, "text", "hang"), 10 * time.Minute,
			"ambiguous 4.4.2 the server took too long"},
		"half": {script(hello, oneMail, "text", ">250 ok", "hang"), 10 * time.Minute,
			"ambiguous 4.4.2 the server took too long"},
		"the text": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 250 ok", "> 354 go"), 0,
			"later 4.4.2 sending the text"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{t: t, scripts: [][]string{c.script}}
				client := newClient(t, Env{Dial: s.dial}, nil, "127.0.0.1:25")
				start := time.Now()
				j := job(bob)
				j.Open = open(strings.Repeat("0123456789\r\n", 10_000))
				j.Size = 0
				want(t, client.Deliver(t.Context(), j), c.want)
				if took := time.Since(start); took != c.after {
					t.Errorf("took %s, want %s", took, c.after)
				}
			})
		})
	}
}

// TestDripping: a server that gives a byte now and then gets no more time for it.
func TestDripping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			go func() {
				defer server.Close()
				for {
					if _, err := io.WriteString(server, "2"); err != nil {
						return
					}
					time.Sleep(time.Minute)
				}
			}()
			return client, nil
		}
		client := newClient(t, Env{Dial: dial}, nil, "127.0.0.1:25")
		start := time.Now()
		want(t, client.Deliver(t.Context(), job(bob)), "later 4.4.2 too long")
		if took := time.Since(start); took != 5*time.Minute {
			t.Errorf("took %s", took)
		}
		time.Sleep(2 * time.Minute) // of made-up time, for the server
	})
}

// TestUnreachable: a server that does not answer is given the time for a connection, and no more.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		client := newClient(t, Env{Dial: dial}, nil, "192.0.2.1:25")
		start := time.Now()
		got := client.Deliver(t.Context(), job(bob))
		want(t, got, "later 4.4.1 no connection")
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("took %s", took)
		}
		start = time.Now()
		if again := client.Deliver(t.Context(), job(bob)); again[0] != got[0] || time.Since(start) != 0 {
			t.Errorf("%v after %s", again, time.Since(start))
		}
	})
}

// TestEarlyAnswer: a server that takes no more of the text has its say.
func TestEarlyAnswer(t *testing.T) {
	for said, wanted := range map[string]string{
		"> 552 5.3.4 too large":   "failed 5.3.4 too large",
		"> 451 4.3.1 full":        "later 4.3.1 full",
		"> 421 4.3.2 closing":     "later 4.3.2 closing",
		"> 250 thank you, enough": "later 4.4.2 sending the text",
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &scripted{t: t, scripts: [][]string{script(hello, oneMail, said)}}
			// The pipe has no buffer: what was said is read after the text could not be written.
			client := newClient(t, Env{Dial: s.dialBuffered}, nil, "127.0.0.1:25")
			j := job(bob)
			j.Open, j.Size = open(strings.Repeat("0123456789\r\n", 10_000)), 0
			want(t, client.Deliver(t.Context(), j), wanted)
		})
	}
}

// TestCommitted: it is called when the text is sent, and its error keeps the dot back.
func TestCommitted(t *testing.T) {
	for name, text := range map[string]string{"small": text, "large": strings.Repeat("0123456789\r\n", 20_000)} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, script(hello, oneMail, "hang"), script(hello, oneMail, goodDot, "hang"))
			client := newClient(t, Env{}, nil, s.address)
			j := job(bob)
			j.Open, j.Size = slowly(text), 0
			j.Committed = func() error { return errTest }
			want(t, client.Deliver(soon(t), j), "later 4.3.0 the disk is full")
			calls := 0
			j.Committed = func() error {
				calls++
				if _, texts, _ := s.seen(); len(texts) != 0 {
					t.Error("the server has seen the dot")
				}
				return nil
			}
			want(t, client.Deliver(soon(t), j), "done 2.0.0")
			said, texts, conns := s.seen()
			if calls != 1 || conns != 2 || len(texts) != 1 || texts[0] != text {
				t.Errorf("%d calls, %d connections, %d texts", calls, conns, len(texts))
			}
			for _, line := range said {
				if line == "." {
					t.Error("a dot was sent all the same")
				}
			}
		})
	}
}

// TestOurOwnTrouble: what is wrong with the mail itself reaches no server as a whole.
func TestOurOwnTrouble(t *testing.T) {
	broken := func() (io.ReadCloser, error) { return nil, errTest }
	breaks := func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader(text), errReader{})), nil
	}
	for name, c := range map[string]struct {
		open   func() (io.ReadCloser, error)
		script []string
		want   string
	}{
		"unreadable": {broken, script(hello, "hang"), "later 4.3.0 the text cannot be read: the disk is full"},
		"breaks":     {breaks, script(hello, oneMail, "hang"), "later 4.3.0 the disk is full"},
		"bare LF": {open("a\r\nb\n.\r\nMAIL FROM:<>\r\n"), script(hello, oneMail, "hang"),
			"failed 5.6.0 CR or LF"},
		"bare CR":      {open("a\r\nb\r.\r\n"), script(hello, oneMail, "hang"), "failed 5.6.0 CR or LF"},
		"CR at end":    {open("a\r\nb\r"), script(hello, oneMail, "hang"), "failed 5.6.0 CR or LF"},
		"LF in pieces": {slowly("a\n"), script(hello, oneMail, "hang"), "failed 5.6.0 CR or LF"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScripted(t, c.script)
			other := newScripted(t) // no reason to try it
			client := newClient(t, Env{}, nil, s.address, other.address)
			j := job(bob)
			j.Open = c.open
			j.Committed = func() error { t.Error("committed"); return nil }
			want(t, client.Deliver(soon(t), j), c.want)
			if _, texts, _ := s.seen(); len(texts) > 0 {
				t.Errorf("the server has it: %q", texts)
			}
			if _, _, conns := other.seen(); conns > 0 {
				t.Error("another server was tried")
			}
		})
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errTest }

// TestContext: a delivery can be stopped at any time, and is ambiguous only after the dot.
func TestContext(t *testing.T) {
	for name, c := range map[string]struct {
		script []string
		want   string
		took   time.Duration
	}{
		"greeting": {script("hang"), "later 4.3.2 stopped", time.Second},
		"envelope": {script(hello, "hang"), "later 4.3.2 stopped", time.Second},
		"before the text": {script(hello, "< MAIL", "< RCPT", "< DATA", "> 250 ok", "> 250 ok", "hang"),
			"later 4.3.2 stopped", time.Second},
		"after the dot":    {script(hello, oneMail, "text", "hang"), "ambiguous 4.4.2", time.Second + grace},
		"answers a little": {script(hello, oneMail, "text", "wait", "> 250 ok"), "done 2.0.0", 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scripted{t: t, scripts: [][]string{c.script}}
				client := newClient(t, Env{Dial: s.dial}, nil, "127.0.0.1:25", "127.0.0.1:26")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				start := time.Now()
				want(t, client.Deliver(ctx, job(bob)), c.want)
				if took := time.Since(start); took != c.took {
					t.Errorf("took %s", took)
				}
				if up := client.Stats().Servers[0].Up; !up {
					t.Error("the server is blamed")
				}
			})
		})
	}
}

// TestClose: it waits for what is under way as long as it may, and takes nothing more.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &scripted{t: t, scripts: [][]string{script(hello, oneMail, "text", "wait", "> 250 ok", "< QUIT",
			"> 221 bye"), script("hang")}}
		client := newClient(t, Env{Dial: s.dial}, func(o *Options) { o.Connections = 2 }, "127.0.0.1:25")
		results := make(chan []Result)
		go func() { results <- client.Deliver(context.Background(), job(bob)) }()
		synctest.Wait()
		go func() { results <- client.Deliver(context.Background(), job(bob)) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		go func() {
			want(t, <-results, "done 2.0.0")
			want(t, client.Deliver(context.Background(), job(bob)), "later 4.3.2 closed")
			want(t, <-results, "later 4.3.2 stopped")
		}()
		if err := client.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if got := client.Stats(); got.Connections != 0 || got.Idle != 0 {
			t.Errorf("%+v", got)
		}
		synctest.Wait()
	})
}

// TestAddresses: what cannot stand in a command is never sent.
func TestAddresses(t *testing.T) {
	client := newClient(t, Env{Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("dialled")
		return nil, errTest
	}}, nil, "127.0.0.1:25")
	want(t, client.Deliver(soon(t), job("b\r\nDATA@example.net", "", "b@example.net> SIZE=1", "@", "b@", "@b",
		"a\x00@b", strings.Repeat("x", 1000)+"@b")),
		"failed 5.1.3", "failed 5.1.3", "failed 5.1.3", "failed 5.1.3", "failed 5.1.3", "failed 5.1.3", "failed 5.1.3",
		"failed 5.1.3")
	j := job(bob)
	j.Sender = "a\nb@example.org"
	want(t, client.Deliver(soon(t), j), "failed 5.1.7")
	if got := client.Deliver(soon(t), job()); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
