package smtpgate

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestAnySession: whatever order commands come in, however they are cut, each is answered once, with the code that a
// model of a few lines expects; and as many mails arrive as were said to be queued. Texts and chunks are made of
// commands.
func TestAnySession(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.opts.Networks = prefixes("127.0.0.0/8")
		r.opts.Bounds.Recipients, r.opts.Bounds.Message = 2, 2048
		r.rules.Exempt = []string{"127.0.0.1"}
	})
	octets := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{evil, text, "QUIT\r\n", "BDAT 0 LAST\r\n",
			".\r\n", "x", "\r\n", ".", ".."}), 0, 12).Draw(t, "octets"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		var said strings.Builder
		var want []string
		begun, named, chunked, size, queued := false, 0, false, 0, 0
		over := func() { begun, named, chunked, size = false, 0, false, 0 }
		for range rapid.IntRange(1, 15).Draw(t, "commands") {
			code := "250"
			switch step := rapid.SampledFrom([]string{"EHLO", "MAIL", "RCPT", "typo", "DATA", "BDAT", "BDAT LAST",
				"BDAT FOO", "RSET", "NOOP", "FOO"}).Draw(t, "command"); step {
			case "EHLO", "RSET":
				said.WriteString(step + map[string]string{"EHLO": " x"}[step] + "\r\n")
				over()
			case "MAIL":
				said.WriteString(from)
				if begun {
					code = "503"
				}
				begun = true
			case "RCPT", "typo":
				said.WriteString(map[string]string{"RCPT": to, "typo": typo}[step])
				switch {
				case !begun || chunked:
					code = "503"
				case named == 2:
					code = "452"
				case step == "typo":
					code = "553"
				default:
					named++
				}
			case "DATA":
				if named == 0 || chunked { // nothing may follow it
					continue
				}
				body := octets.Draw(t, "text")
				said.WriteString("DATA\r\n" + strings.ReplaceAll("\r\n"+body, "\r\n.", "\r\n..")[2:] + "\r\n.\r\n")
				want = append(want, "354")
				if len(body)+2 > 2048 {
					code = "552"
				} else {
					queued++
				}
				over()
			case "BDAT", "BDAT LAST", "BDAT FOO":
				chunk := octets.Draw(t, "chunk")
				word := strings.TrimPrefix(step, "BDAT")
				said.WriteString(fmt.Sprintf("BDAT %d%s\r\n%s", len(chunk), word, chunk))
				size += len(chunk)
				switch {
				case word == " FOO":
					code = "501"
					over()
				case named == 0:
					code = "503"
					over()
				case size > 2048:
					code = "552"
					over()
				case word == " LAST":
					queued++
					over()
				default:
					chunked = true
				}
			case "NOOP":
				said.WriteString("NOOP\r\n")
			case "FOO":
				said.WriteString("FOO\r\n")
				code = "500"
			}
			want = append(want, code)
		}
		said.WriteString("QUIT\r\n" + evil)
		want = append(want, "221")
		cut := rapid.IntRange(0, said.Len()).Draw(t, "cut")
		accepted := r.spool.accepted.Load()
		conn, err := net.Dial("tcp", r.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(time.Minute))
		go func() {
			_, _ = io.WriteString(conn, "EHLO x\r\n"+said.String()[:cut])
			_, _ = io.WriteString(conn, said.String()[cut:])
		}()
		c := &client{nil, conn, bufio.NewReader(conn)}
		want = append([]string{"220", "250"}, want...)
		for i := 0; ; i++ {
			got, err := c.reply()
			if err == io.EOF && i == len(want) {
				break
			}
			if last := got[strings.LastIndexByte(got, '\n')+1:]; err != nil || i >= len(want) ||
				!strings.HasPrefix(last, want[i]+" ") {
				t.Fatalf("answer %d is %q, %v; want %q in\n%q", i, got, err, want[min(i, len(want)-1)], said.String())
			}
		}
		if n := r.spool.accepted.Load() - accepted; n != int64(queued) {
			t.Fatalf("%d mails were taken, want %d", n, queued)
		}
	})
}
