package smtpgate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir"
	"weir/internal/testkit/needs"
)

// starts are the states in which a fuzzed session goes on.
var starts = []struct {
	say  string
	free bool // the client may send
}{
	{"", false},
	{"EHLO x\r\n", false},
	{"EHLO x\r\nMAIL FROM:<a@example.org>\r\nRCPT TO:<weir+x@mail.example.org>\r\nDATA\r\n", false},
	{"EHLO x\r\nAUTH PLAIN " + plain("ann", "correct horse") + "\r\n", true},
	{"EHLO x\r\nAUTH PLAIN " + plain("ann", "correct horse") +
		"\r\nMAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.com>\r\nDATA\r\n", true},
	{"EHLO x\r\nAUTH PLAIN " + plain("ann", "correct horse") +
		"\r\nMAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.com>\r\nBDAT 5\r\nS: x\n", true},
}

// FuzzSession: whatever a client says, in whatever state: the gate lives, each mail that was said to be queued was
// accepted, and nobody sends who may not.
func FuzzSession(f *testing.F) {
	for i := range starts {
		for _, seed := range []string{
			"", "QUIT\r\n", "EHLO\r\nEHLO x y\r\nHELO z\r\n",
			"MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\nS: x\r\n\r\n.\r\n",
			"S: x\r\n\r\nhello\r\n.\r\nQUIT\r\n",
			"\n.\nMAIL FROM:<a@b.example>\r\n", "\r\n.\r\nMAIL FROM:<a@b.example>\r\n", "BDAT 3 LAST\r\nabc",
			"BDAT 1\r\nxBDAT 0 LAST\r\nRSET\r\n", "AUTH LOGIN\r\nYW5u\r\nYW5u\r\n", "AUTH PLAIN AGFubgBhbm4=\r\n",
			"RCPT TO:<weir+x@mail.example.org>\r\nDATA\r\n\r\n.\r\n", "STARTTLS\r\n", "NOOP\r\n\x00\xff\r\n",
			strings.Repeat("a", 3000),
		} {
			f.Add(uint8(i), []byte(seed))
		}
	}
	var commands atomic.Int64
	r := newRig(f, func(r *rig) {
		r.opts.Command = "weir@mail.example.org"
		r.opts.Timeouts = Timeouts{Idle: weir.Duration(10 * time.Second)}
		r.rules.Exempt = []string{"ann"}
		r.env.Commands = func(_ context.Context, _ time.Time, _ string, text io.Reader) error {
			commands.Add(1)
			_, err := io.Copy(io.Discard, text)
			return err
		}
	})
	f.Fuzz(func(t *testing.T, start uint8, say []byte) {
		s := starts[int(start)%len(starts)]
		accepted, ran := r.spool.accepted.Load(), commands.Load()
		conn, err := net.Dial("tcp", r.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		go func() {
			_, _ = io.WriteString(conn, s.say)
			_, _ = conn.Write(say)
			_ = conn.(*net.TCPConn).CloseWrite()
		}()
		answers, err := io.ReadAll(conn)
		if err != nil && len(say) < 200<<10 {
			t.Fatalf("%v after %q", err, answers)
		}
		needs.Wait(t, "the session ends", func() bool { return r.UnderWay.Load() == 0 })
		accepted, ran = r.spool.accepted.Load()-accepted, commands.Load()-ran
		if queued := int64(strings.Count("\n"+string(answers), "\n250 2.0.0 OK: queued as ")); queued > accepted+ran {
			t.Errorf("%d queued, %d accepted, %d commands: %q", queued, accepted, ran, answers)
		}
		if accepted > 0 && !s.free && !strings.Contains("\n"+string(answers), "\n235 ") {
			t.Errorf("a stranger has sent: %q", answers)
		}
		r.exit.mu.Lock()
		r.exit.sent = nil
		r.exit.mu.Unlock()
	})
}

// frames are ways to send octets as the text of a mail, and what is answered to them. What follows is a NOOP and a
// QUIT.
var frames = []struct {
	name   string
	before string
	dotted bool // by DATA; otherwise by BDAT, in a chunk, or in two
	more   string
	codes  string // * is any that a text may have
}{
	{"DATA", from + to + "DATA\r\n", true, "", "250 250 354 * 250 221"},
	{"a chunk", from + to, false, " LAST", "250 250 * 250 221"},
	{"no recipient", from + typo, false, " LAST", "250 553 503 250 221"},
	{"no mail", "", false, " LAST", "503 250 221"},
	{"not a chunk", from + to, false, " FOO", "250 250 501 250 221"},
	{"given up", from + to + "BDAT 0\r\nRSET\r\n", false, "", "250 250 250 250 503 250 221"},
}

// FuzzTextIsNoCommand: whatever the octets of a mail are, by DATA or BDAT, taken or refused: they cause no answer of
// their own, and no other mail. There are as many answers as there are commands.
func FuzzTextIsNoCommand(f *testing.F) {
	for i := range frames {
		for _, seed := range []string{"", evil, text, ".\r\n" + evil, "\r\n.\r\n" + evil, "\n.\n" + evil, ".",
			"\r\n.\r", ".\r\r\n", "a\x00b", strings.Repeat(evil, 100), "BDAT 0 LAST\r\n",
			strings.Repeat("a", 3000), "QUIT\r\n", "\r"} {
			f.Add(uint8(i), []byte(seed), uint16(7))
		}
	}
	r := newRig(f, func(r *rig) {
		r.opts.Networks = prefixes("127.0.0.0/8")
		r.rules.Exempt = []string{"127.0.0.1"}
	})
	f.Fuzz(func(t *testing.T, i uint8, octets []byte, cut uint16) {
		frame := frames[int(i)%len(frames)]
		said := "EHLO x\r\n" + frame.before
		if frame.dotted {
			stuffed := strings.ReplaceAll("\r\n"+string(octets), "\r\n.", "\r\n..")[2:]
			said += stuffed + "\r\n.\r\n"
		} else {
			said += fmt.Sprintf("BDAT %d%s\r\n%s", len(octets), frame.more, octets)
		}
		said += "NOOP\r\nQUIT\r\n"
		accepted := r.spool.accepted.Load()
		conn, err := net.Dial("tcp", r.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		go func() {
			at := min(int(cut), len(said))
			_, _ = io.WriteString(conn, said[:at])
			_, _ = io.WriteString(conn, said[at:])
		}()
		c := &client{t, conn, bufio.NewReader(conn)}
		c.expect("220")
		c.expect("250")
		for _, want := range strings.Fields(frame.codes) {
			got, err := c.reply()
			if err != nil {
				t.Fatalf("%s: %v, want %s", frame.name, err, want)
			}
			if want == "*" {
				if strings.HasPrefix(got, "554 5.6.0 a bare CR or LF") && frame.dotted { // the session ends with it
					break
				}
				if want = "250 2.0.0 OK: queued as"; !strings.HasPrefix(got, want) {
					want = "55" // 552, 554
				}
			}
			if !strings.HasPrefix(got, want) {
				t.Fatalf("%s: %q, want %s", frame.name, got, want)
			}
		}
		c.ended()
		if n := r.spool.accepted.Load() - accepted; n > 1 || n > 0 && !strings.Contains(frame.codes, "*") {
			t.Errorf("%s: %d mails", frame.name, n)
		}
		r.exit.mu.Lock()
		defer r.exit.mu.Unlock()
		for _, m := range r.exit.sent {
			if m.job.Sender != "a@example.org" {
				t.Errorf("%s: a mail from %q", frame.name, m.job.Sender)
			}
		}
		r.exit.sent = nil
	})
}
