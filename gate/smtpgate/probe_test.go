package smtpgate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/internal/testkit/postfix"
	"weir/mail/nexthop"
)

// A probe is what a client says in one piece behind its EHLO, what it is answered, and what arrives at the next hop.
type probe struct {
	name    string
	say     string
	answers string // codes; "." where the session is ended from the other side, while more was said
	arrives string // from>to,to "body"; separated by a line end
	rude    bool   // without the EHLO
	later   string // what it says when it has been answered as often as there are codes in front of the bar
}

// What probes are made of. The evil mail is the text of another one, which no server may send.
const (
	from = "MAIL FROM:<a@example.org>\r\n"
	to   = "RCPT TO:<b@example.com>\r\n"
	typo = "RCPT TO:<typo@@x>\r\n"
	text = "Subject: x\r\n\r\nhello\r\n"
	evil = "RSET\r\nMAIL FROM:<evil@example.org>\r\nRCPT TO:<victim@example.com>\r\nDATA\r\nSubject: " +
		"evil\r\n\r\nevil\r\n.\r\nQUIT\r\n"
	came = `a@example.org>b@example.com "hello\r\n"`

	probeBound = 4 << 10
)

func bdat(text, more string) string { return fmt.Sprintf("BDAT %d%s\r\n%s", len(text), more, text) }

func probes() []probe {
	large := strings.Repeat(evil, 1+probeBound/len(evil))
	half := strings.Repeat("x\r\n", probeBound/6+1)
	row := func(name, say, answers, arrives string) probe {
		return probe{name: name, say: say, answers: answers, arrives: arrives}
	}
	later := func(name, say, later, answers, arrives string) probe {
		return probe{name: name, say: say, later: later, answers: answers, arrives: arrives}
	}
	return []probe{
		// As it should be.
		row("a mail", from+to+"DATA\r\n"+text+".\r\nQUIT\r\n", "250 250 354 250 221", came),
		row("two mails", strings.Repeat(from+to+"DATA\r\n"+text+".\r\n", 2), "250 250 354 250 250 250 354 250",
			came+"\n"+came),
		row("lower case, and spaces", "mail from: <a@example.org>  \r\nrcpt to: <b@example.com> \r\ndata \r\n"+text+
			".\r\nquit\r\n", "250 250 354 250 221", came),
		row("no brackets", "MAIL FROM:a@example.org\r\nRCPT TO:b@example.com\r\nDATA\r\n"+text+".\r\n",
			"250 250 354 250", came),
		row("an empty mail", from+to+"DATA\r\n.\r\nNOOP\r\n", "250 250 354 250 250", `a@example.org>b@example.com ""`),
		row("null sender", "MAIL FROM:<>\r\n"+to+"DATA\r\n"+text+".\r\n", "250 250 354 250",
			`>b@example.com "hello\r\n"`),
		row("quotes", from+"RCPT TO:<\"a b\"@example.com>\r\nDATA\r\n"+text+".\r\n", "250 250 354 250",
			`a@example.org>a b@example.com "hello\r\n"`),
		row("a route", from+"RCPT TO:<@x.example,@y.example:b@example.com>\r\nDATA\r\n"+text+".\r\n", "250 250 354 250",
			came),
		row("postmaster", from+"RCPT TO:<Postmaster>\r\nDATA\r\n"+text+".\r\n", "250 250 354 250",
			`a@example.org>postmaster@mail.example.org "hello\r\n"`),
		row("letters", "MAIL FROM:<ä@example.org> SMTPUTF8\r\nRCPT TO:<ü@example.com>\r\nDATA\r\n"+text+".\r\n",
			"250 250 354 250", `ä@example.org>ü@example.com "hello\r\n"`),
		row("other commands", "NOOP\r\nNOOP x\r\nVRFY x\r\nHELP\r\nEXPN x\r\nRSET\r\n", "250 250 252 214 502 250", ""),
		row("a dot more", from+to+"DATA\r\nSubject: x\r\n\r\n..\r\n...x\r\n.y\r\n.\r\n", "250 250 354 250",
			`a@example.org>b@example.com ".\r\n..x\r\ny\r\n"`),
		row("one of two recipients", from+typo+to+"DATA\r\n"+text+".\r\n", "250 553 250 354 250", came),

		// Chunks.
		row("a chunk", from+to+bdat(text, " LAST")+"QUIT\r\n", "250 250 250 221", came),
		row("three chunks", from+to+bdat(text[:7], "")+bdat(text[7:], "")+"BDAT 0 LAST\r\n", "250 250 250 250 250",
			came),
		row("a chunk of commands", from+to+bdat(evil, " LAST")+"NOOP\r\n", "250 250 250 250",
			`a@example.org>b@example.com "`+strings.ReplaceAll(strings.ReplaceAll(evil, "\r", `\r`), "\n", `\n`)+`"`),
		row("a chunk without recipient", from+typo+bdat(evil, " LAST")+"NOOP\r\n", "250 553 503 250", ""),
		row("a chunk without MAIL", bdat(evil, " LAST")+"NOOP\r\n", "503 250", ""),
		{name: "a chunk without EHLO", say: bdat(evil, " LAST") + "NOOP\r\n", answers: "503 250", rude: true},
		row("chunks without recipient", from+typo+bdat(evil, "")+bdat(evil, "")+bdat(evil, " LAST")+"NOOP\r\n",
			"250 553 503 503 503 250", ""),
		row("a chunk after the last", from+to+bdat(text, " LAST")+bdat(evil, " LAST")+"NOOP\r\n", "250 250 250 503 250",
			came),
		row("a chunk after RSET", from+to+bdat(text, "")+"RSET\r\n"+bdat(evil, " LAST")+"NOOP\r\n",
			"250 250 250 250 503 250", ""),
		row("a chunk that is too large", from+to+bdat(large, " LAST")+"NOOP\r\n", "250 250 552 250", ""),
		row("chunks that are too large", from+to+bdat(text, "")+bdat(large, "")+bdat(evil, " LAST")+"NOOP\r\n",
			"250 250 250 552 503 250", ""),
		row("chunks that are too large together", from+to+bdat(half, "")+bdat(half, "")+bdat(evil, " LAST")+"NOOP\r\n",
			"250 250 250 552 503 250", ""),
		row("a chunk that is not the first", from+to+bdat(evil, " FIRST")+bdat(evil, " LAST")+"NOOP\r\n",
			"250 250 501 503 250", ""),
		row("a chunk with more words", from+to+bdat(evil, " LAST x")+"NOOP\r\n", "250 250 501 250", ""),
		row("a chunk of letters", from+to+"BDAT x LAST\r\n"+evil, "250 250 501 .", ""),
		row("a chunk without size", from+to+"BDAT\r\n"+evil, "250 250 501 .", ""),
		row("a chunk of less than nothing", from+to+"BDAT -1 LAST\r\n"+evil, "250 250 501 .", ""),
		row("a chunk with a sign", from+to+"BDAT +5 LAST\r\n"+evil, "250 250 501 .", ""),
		row("a chunk in hex", from+to+"BDAT 0x10 LAST\r\n"+evil, "250 250 501 .", ""),
		row("a chunk beyond counting", from+to+"BDAT 99999999999999999999 LAST\r\n"+evil, "250 250 501 .", ""),
		row("MAIL between chunks", from+to+bdat(text, "")+from+to+"DATA\r\nRSET\r\n", "250 250 250 503 503 503 .", ""),
		row("QUIT between chunks", from+to+bdat(text, "")+"QUIT\r\n"+bdat("", " LAST"), "250 250 250 221 .", ""),
		row("half a chunk", from+to+"BDAT 1000 LAST\r\n"+evil, "250 250 451", ""),

		// A text that is not waited for.
		row("DATA without recipient", from+typo+"DATA\r\n"+evil, "250 553 503 .", ""),
		row("DATA without MAIL", "DATA\r\n"+evil, "503 .", ""),
		row("DATA with a parameter", from+to+"DATA x\r\n"+evil, "250 250 501 .", ""),
		later("DATA without recipient, and the text later", from+typo+"DATA\r\n", text+evil, "250 553 503 | 500 .", ""),
		later("DATA without MAIL, and the text later", "DATA\r\n", "\r\n"+evil, "503 | 500 .", ""),
		later("DATA with a parameter, and the text later", from+to+"DATA x\r\n", "From: a@example.org\r\n"+evil,
			"250 250 501 | 500 .", ""),
		later("DATA without recipient, and another mail", from+typo+"DATA\r\n",
			"NOOP\r\nRSET\r\nFOO\r\n"+from+to+"DATA\r\n"+text+".\r\n",
			"250 553 503 | 250 250 500 250 250 354 250", came),
		later("DATA without recipient, and a recipient", from+typo+"DATA\r\n", to+"DATA\r\n"+text+".\r\n",
			"250 553 503 | 250 354 250", came),
		row("half a mail", from+to+"DATA\r\n"+text, "250 250 354 451", ""),
		row("QUIT in the middle", from+to+"QUIT\r\nDATA\r\n"+text+".\r\n", "250 250 221 .", ""),
		{name: "QUIT and on", say: "EHLO x\r\nQUIT\r\nMAIL FROM:<a@example.org>\r\n", answers: "250 221 .", rude: true},

		// Line ends.
		row("LF . LF", from+to+"DATA\r\n"+text+"\n.\n"+evil, "250 250 354 554 .", ""),
		row("CR LF . LF", from+to+"DATA\r\n"+text+".\n"+evil, "250 250 354 554 .", ""),
		row("LF . CR LF", from+to+"DATA\r\n"+text+"x\n.\r\n"+evil, "250 250 354 554 .", ""),
		row("CR . CR", from+to+"DATA\r\n"+text+"x\r.\r"+evil, "250 250 354 554 .", ""),
		row("CR LF . CR", from+to+"DATA\r\n"+text+".\r"+evil, "250 250 354 554 .", ""),
		row("CR LF . CR CR LF", from+to+"DATA\r\n"+text+".\r\r\n"+evil, "250 250 354 554 .", ""),
		row("LF in a mail", from+to+"DATA\r\nSubject: x\n\nhello\r\n.\r\nNOOP\r\n", "250 250 354 554 .", ""),
		row("CR in a mail", from+to+"DATA\r\nSubject: x\r\n\r\na\rb\r\n.\r\nNOOP\r\n", "250 250 354 554 .", ""),
		row("CR in a chunk", from+to+bdat("Subject: x\r\n\r\na\rb\r\n", " LAST")+"NOOP\r\n", "250 250 554 250", ""),
		row("NUL in a mail", from+to+"DATA\r\nSubject: x\r\n\r\na\x00b\r\n.\r\nNOOP\r\n", "250 250 354 554 250", ""),
		row("LF in a command", "NOOP\nMAIL FROM:<evil@example.org>\r\n", "500 .", ""),
		row("CR in a command", "NOOP x\rMAIL FROM:<evil@example.org>\r\nNOOP\r\n", "500 .", ""),
		row("NUL in a command", "NOOP\x00\r\nNOOP\r\n", "500 250", ""),
		row("a long line", from+to+"DATA\r\nSubject: x\r\n\r\n"+strings.Repeat("a", 3000)+"\r\n.\r\nNOOP\r\n",
			"250 250 354 554 250", ""),
		row("a long command", "NOOP "+strings.Repeat("a", 3000)+"\r\nNOOP\r\n", "500 .", ""),

		// Not commands, or not now.
		row("an empty line", "\r\nNOOP\r\n", "500 250", ""),
		row("no commands", "FOO\r\nFOO BAR\r\nM\r\n MAIL FROM:<a@example.org>\r\nMAIL\r\nRCPT\r\n",
			"500 500 500 500 501 503", ""),
		row("a browser", "POST / HTTP/1.1\r\nHost: x\r\n\r\n"+evil, "500 .", ""),
		{name: "MAIL before EHLO", say: from + to + "DATA\r\n", answers: "503 503 503", rude: true},
		row("MAIL twice", from+to+"MAIL FROM:<evil@example.org>\r\nDATA\r\n"+text+".\r\n", "250 250 503 354 250", came),
		row("RSET forgets", from+to+"RSET\r\n"+to+"DATA\r\n", "250 250 250 503 503", ""),
		row("EHLO forgets", from+to+"EHLO x\r\n"+to+"DATA\r\n", "250 250 250 503 503", ""),
		row("HELO", "HELO x\r\n"+from+to+"DATA\r\n"+text+".\r\n", "250 250 250 354 250", came),
		row("no addresses", "MAIL FROM:<a>\r\nMAIL FROM:<a@b\r\nMAIL FROM:<a@b..c>\r\nMAIL FROM:<a@b> x@y\r\n"+from+
			"RCPT TO:<>\r\nRCPT TO:<a@b@c>\r\nRCPT TO:<ü@example.com>\r\n", "501 501 553 555 250 501 553 553", ""),
		row("sizes",
			"MAIL FROM:<a@example.org> SIZE=999999999999\r\nMAIL FROM:<a@example.org> "+
				"SIZE=99999999999999999999\r\nMAIL FROM:<a@example.org> SIZE=x\r\nMAIL FROM:<a@example.org> "+
				"SIZE=4096\r\n", "552 552 501 250", ""),
		row("parameters",
			"MAIL FROM:<a@example.org> FOO=1\r\nMAIL FROM:<a@example.org> BODY=8BITMIME BODY=7BIT\r\nMAIL "+
				"FROM:<a@example.org>SIZE=1\r\nMAIL FROM:<a@example.org> RET=HDRS ENVID=x+2By BODY=8BITMIME SIZE=1 "+
				"AUTH=<>\r\n", "555 501 501 250", ""),
		row("STARTTLS where there is none", "STARTTLS\r\nNOOP\r\n", "502 250", ""),
		row("AUTH in vain", "AUTH\r\nAUTH FOO\r\nAUTH PLAIN !\r\nAUTH PLAIN\r\n*\r\nAUTH LOGIN\r\n"+b64("ann")+
			"\r\n*\r\nNOOP\r\n", "501 504 501 334 501 334 334 501 250", ""),
		row("AUTH in a mail", from+"AUTH PLAIN "+plain("ann", "correct horse")+"\r\n", "250 503", ""),
	}
}

// run says it, and returns the codes of what is answered behind the EHLO, and how many mails were taken.
func (p *probe) run(t *testing.T, addr string) (answers string, taken int) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	c := &client{t, conn, bufio.NewReader(conn)}
	c.expect("220")
	said := p.say
	if !p.rude {
		c.cmd("EHLO client.example", "250")
	}
	before, _, _ := strings.Cut(p.answers, "|")
	awaited := len(strings.Fields(before))
	if _, _ = io.WriteString(conn, said); p.later == "" { // it may be over before
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	var codes []string
	for {
		if p.later != "" && len(codes) == awaited {
			codes = append(codes, "|")
			_, _ = io.WriteString(conn, p.later)
			_ = conn.(*net.TCPConn).CloseWrite()
		}
		got, err := c.reply()
		if err != nil {
			return strings.Join(codes, " "), taken
		}
		last := got[strings.LastIndexByte(got, '\n')+1:]
		codes = append(codes, last[:min(len(last), 3)])
		if strings.Contains(last, "queued as") {
			taken++
		}
	}
}

// arrived shows mails as probes do.
func arrived(mails []postfix.Mail) string {
	var all []string
	for _, m := range mails {
		_, body, _ := strings.Cut(string(m.Text), "\r\n\r\n")
		all = append(all, fmt.Sprintf("%s>%s %+q", m.From, strings.Join(m.To, ","), body))
	}
	slices.Sort(all)
	return strings.ReplaceAll(strings.Join(all, "\n"), `\u00e4`, "ä")
}

// brief shows what probes say: what they have in common in a word, and the rest in a line.
var brief = strings.NewReplacer(from, "MAIL|", to, "RCPT|", typo, "RCPT @@|", evil, "EVIL|", text, "TEXT|", "\r\n", "|",
	"\r", "<CR>", "\n", "<LF>", "\x00", "<NUL>")

// TestProbes: raw dialogues over real sockets, with a server behind that records what arrives. With -v it prints a
// table. With WEIR_PROBE=postfix a Postfix stands in weir's place, and with WEIR_PROBE=host:port any other server, of
// which nothing is known but its answers. Then the table tells what differs, and nothing fails.
func TestProbes(t *testing.T) {
	t.Parallel()
	sink := postfix.NewSink(t)
	instead := os.Getenv("WEIR_PROBE")
	addr := instead
	idle := func() {}
	switch instead {
	case "":
		r := newRig(t, func(r *rig) {
			hop, err := nexthop.New(nexthop.Options{Servers: []string{sink.Addr()}}, nexthop.Env{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = hop.Close(context.Background()) })
			r.behind = hop
			r.opts.Networks, r.opts.Bounds.Message = prefixes("127.0.0.0/8"), probeBound
			r.rules.Exempt = []string{"127.0.0.1"}
		})
		addr = r.Addr().String()
		idle = func() {
			if err := r.spool.Idle(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
	case "postfix":
		addr = postfix.Start(t, postfix.Options{Relay: sink.Addr(),
			Main: map[string]string{"message_size_limit": fmt.Sprint(probeBound), "myorigin": "mail.example.org",
				"smtpd_hard_error_limit": "100", "smtpd_soft_error_limit": "100", "smtpd_error_sleep_time": "0"}}).Addr
	}
	var table strings.Builder
	all := probes()
	for _, p := range all {
		before := len(sink.Mails())
		codes, taken := p.run(t, addr)
		if idle(); instead == "postfix" { // as many as it must have taken
			sink.Await(before + taken)
		}
		got := arrived(sink.Mails()[before:])
		want := strings.TrimSuffix(p.answers, " .")
		note := "as it should be"
		if codes != want || got != p.arrives {
			note = fmt.Sprintf("weir answers %s", want)
			if instead == "" {
				t.Errorf("%s: %q, then %q is answered %q, want %q\n%s\narrives, want\n%s",
					p.name, p.say, p.later, codes, want, got, p.arrives)
			}
		}
		if strings.Contains("\n"+got, "\nevil@") {
			note = "a text was executed"
		}
		got = strings.ReplaceAll(got, "\n", " ")
		fmt.Fprintf(&table, "%-30s %-50.50s %-36s %-36s %.60s\n", p.name, brief.Replace(p.say+p.later), codes, note,
			got)
	}
	t.Logf("%d dialogues\n%s", len(all), table.String())
}
