package smtpgate

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir"
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
	{"EHLO x\r\nAUTH PLAIN " + plain("ann", "correct horse") + "\r\nMAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.com>\r\nDATA\r\n", true},
	{"EHLO x\r\nAUTH PLAIN " + plain("ann", "correct horse") + "\r\nMAIL FROM:<a@example.org>\r\nRCPT TO:<b@example.com>\r\nBDAT 5\r\nS: x\n", true},
}

// FuzzSession: whatever a client says, in whatever state: the gate lives, each mail that was said to be queued was accepted, and nobody
// sends who may not.
func FuzzSession(f *testing.F) {
	for i := range starts {
		for _, seed := range []string{
			"", "QUIT\r\n", "EHLO\r\nEHLO x y\r\nHELO z\r\n", "MAIL FROM:<a@b.example>\r\nRCPT TO:<c@d.example>\r\nDATA\r\nS: x\r\n\r\n.\r\n", "S: x\r\n\r\nhello\r\n.\r\nQUIT\r\n",
			"\n.\nMAIL FROM:<a@b.example>\r\n", "\r\n.\r\nMAIL FROM:<a@b.example>\r\n", "BDAT 3 LAST\r\nabc", "BDAT 1\r\nxBDAT 0 LAST\r\nRSET\r\n", "AUTH LOGIN\r\nYW5u\r\nYW5u\r\n", "AUTH PLAIN AGFubgBhbm4=\r\n",
			"RCPT TO:<weir+x@mail.example.org>\r\nDATA\r\n\r\n.\r\n", "STARTTLS\r\n", "NOOP\r\n\x00\xff\r\n", strings.Repeat("a", 3000),
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
		eventually(t, "the session ends", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.sessions) == 0
		})
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
