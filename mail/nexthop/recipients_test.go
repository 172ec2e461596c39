package nexthop

import (
	"fmt"
	"io"
	"strings"
	"testing"
)

// TestRecipients: each one has an own answer.
func TestRecipients(t *testing.T) {
	three := []string{"a@example.net", "b@example.net", "c@example.net"}
	envelope := []string{"< MAIL", "< RCPT TO:<a@", "< RCPT TO:<b@", "< RCPT TO:<c@", "< DATA", "> 250 ok"}
	for name, c := range map[string]struct {
		server string
		script []string
		want   []string
	}{
		"some refused": {"", script(hello, envelope, "> 250 ok", "> 550 5.1.1 unknown", "> 450 4.2.1 later", "> 354 go",
			goodDot, "hang"),
			[]string{"done 2.0.0 queued", "failed 5.1.1 unknown", "later 4.2.1 later"}},
		"all refused": {"", script(hello, envelope, "> 550 5.1.1 a", "> 550 5.1.2 b", "> 450 4.2.1 c", "> 354 go",
			"< .", "> 554 nobody", "hang"),
			[]string{"failed 5.1.1 a", "failed 5.1.2 b", "later 4.2.1 c"}},
		"some refused, then silence": {"",
			script(hello, envelope, "> 250 ok", "> 550 5.1.1 unknown", "> 250 ok", "> 354 go", "text"),
			[]string{"ambiguous 4.4.2", "failed 5.1.1 unknown", "ambiguous 4.4.2"}},
		"some refused, then DATA": {"", script(hello, envelope, "> 250 ok", "> 550 5.1.1 unknown", "> 250 ok",
			"> 451 4.3.0 no", "hang"),
			[]string{"later 4.3.0 no", "failed 5.1.1 unknown", "later 4.3.0 no"}},
		"some refused, then died": {"", script(hello, envelope, "> 250 ok", "> 550 5.1.1 unknown"),
			[]string{"later 4.4.2", "later 4.4.2", "later 4.4.2"}},
		"too many": {"", script(hello, envelope, "> 250 ok", "> 452 4.5.3 too many", "> 452 4.5.3 too many", "> 354 go",
			goodDot,
			"< MAIL", "< RCPT TO:<b@", "< RCPT TO:<c@", "< DATA", "> 250 ok", "> 250 ok", "> 452 too many", "> 354 go",
			goodDot,
			"< MAIL", "< RCPT TO:<c@", "< DATA", "> 250 ok", "> 452 too many", "> 503 nobody", "hang"),
			[]string{"done 2.0.0", "done 2.0.0", "later 4.0.0 too many"}},
		"a full mailbox": {"", script(hello, envelope, "> 250 ok", "> 452 4.2.2 full", "> 250 ok", "> 354 go", goodDot,
			"hang"),
			[]string{"done 2.0.0", "later 4.2.2 full", "done 2.0.0"}},
		"the server says how many": {"",
			script("> 220 here", "< EHLO", "> 250-here", "> 250-PIPELINING", "> 250 LIMITS MAILMAX=7 RCPTMAX=2",
				"< MAIL", "< RCPT TO:<a@", "< RCPT TO:<b@", "< DATA", "> 250 ok", "> 250 ok", "> 250 ok", "> 354 go",
				goodDot,
				"< MAIL", "< RCPT TO:<c@", "< DATA", "> 250 ok", "> 250 ok", "> 354 go", "text", "> 451 4.3.0 no",
				"hang"),
			[]string{"done 2.0.0", "done 2.0.0", "later 4.3.0"}},
		"LMTP": {"lmtp://", script(helloLMTP, envelope, "> 250 ok", "> 550 5.1.1 unknown", "> 250 ok", "> 354 go",
			"text", "> 250 ok", "> 452 4.2.2 full", "hang"),
			[]string{"done 2.0.0 ok", "failed 5.1.1 unknown", "later 4.2.2 full"}},
		"LMTP, half": {"lmtp://", script(helloLMTP, envelope, "> 250 ok", "> 250 ok", "> 250 ok", "> 354 go", "text",
			"> 250 ok", "> 550 5.2.2 full"),
			[]string{"done 2.0.0 ok", "failed 5.2.2 full", "ambiguous 4.4.2"}},
		"LMTP, closing": {"lmtp://", script(helloLMTP, envelope, "> 250 ok", "> 250 ok", "> 250 ok", "> 354 go", "text",
			"> 250 ok", "> 421 4.3.2 closing"),
			[]string{"done 2.0.0 ok", "later 4.3.2 closing", "ambiguous 4.4.2"}},
		"LMTP, all refused": {"lmtp://",
			script(helloLMTP, envelope, "> 550 5.1.1 a", "> 550 5.1.1 b", "> 550 5.1.1 c", "> 354 go", "< .",
				"> 503 nobody", "hang"),
			[]string{"failed 5.1.1 a", "failed 5.1.1 b", "failed 5.1.1 c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScripted(t, c.script)
			client := newClient(t, Env{}, nil, c.server+s.address)
			want(t, client.Deliver(soon(t), job(three...)), c.want...)
		})
	}
}

// TestOneMore: more recipients than a mail may have go in two mails, each with its own word that it is committed.
func TestOneMore(t *testing.T) {
	s := newSink(t)
	client := newClient(t, Env{}, func(o *Options) { o.Recipients = 5 }, s.address)
	for n, mails := range map[int]int64{5: 1, 6: 2, 10: 2, 11: 3} {
		s.mails.Store(0)
		var to, wanted []string
		for i := range n {
			to, wanted = append(to, fmt.Sprintf("b%d@example.net", i)), append(wanted, "done 2.0.0")
		}
		committed := int64(0)
		j := job(to...)
		j.Committed = func() error { committed++; return nil }
		want(t, client.Deliver(soon(t), j), wanted...)
		if got := s.mails.Load(); got != mails || committed != mails {
			t.Errorf("%d recipients in %d mails, committed %d times", n, got, committed)
		}
	}
}

// TestLongEnvelope: an envelope of many kilobytes is sent in parts, so that neither side waits for the other.
func TestLongEnvelope(t *testing.T) {
	s := newSink(t)
	client := newClient(t, Env{}, func(o *Options) { o.Recipients = 1000 }, s.address)
	var to, wanted []string
	for i := range 1000 {
		to, wanted = append(to, fmt.Sprintf("b%d.%s@example.net", i, strings.Repeat("x", 200))),
			append(wanted, "done 2.0.0")
	}
	want(t, client.Deliver(soon(t), job(to...)), wanted...)
	n := 0
	s.rcpts.Range(func(any, any) bool { n++; return true })
	if n != 1000 || s.mails.Load() != 1 {
		t.Errorf("%d recipients in %d mails", n, s.mails.Load())
	}
}

// TestFits: what a server does not know is not sent to it.
func TestFits(t *testing.T) {
	const body8, header8 = "Subject: x\r\n\r\nl\xc3\xa4uft\r\n", "Subject: l\xc3\xa4uft\r\n\r\nx\r\n"
	bare := []string{"> 220 here", "< EHLO", "> 250-here", "> 250-PIPELINING", "> 250 SIZE 100"}
	full := []string{"> 220 here", "< EHLO", "> 250-here", "> 250-PIPELINING", "> 250-SMTPUTF8", "> 250-8bitmime",
		"> 250 SIZE"}
	mail := func(line string) []string { return append([]string{"< " + line + "\r\n"}, oneMail[1:]...) }
	for name, c := range map[string]struct {
		to     string
		change func(*Job)
		script []string
		want   string
	}{
		"too large": {bob, func(j *Job) { j.Size = 101 }, script(bare, "hang"), "failed 5.3.4 101 bytes"},
		"just fits": {bob, func(j *Job) { j.Size = 100 },
			script(bare, mail("MAIL FROM:<ann@example.org> SIZE=100"), goodDot, "hang"), "done 2.0.0"},
		"size unknown": {bob, func(j *Job) { j.Size = 0 },
			script(bare, mail("MAIL FROM:<ann@example.org>"), goodDot, "hang"), "done 2.0.0"},
		"8 bit": {bob, func(j *Job) { j.EightBit, j.Open = true, open(body8) }, script(bare, "hang"),
			"failed 5.6.3"},
		"only declared": {bob, func(j *Job) { j.EightBit = true },
			script(bare, mail("MAIL FROM:<ann@example.org> SIZE=32"), goodDot, "hang"), "done 2.0.0"},
		"8 bit, known": {bob, func(j *Job) { j.EightBit, j.Open = true, open(body8) },
			script(full, mail("MAIL FROM:<ann@example.org> SIZE=32 BODY=8BITMIME"), goodDot, "hang"), "done 2.0.0"},
		"UTF-8": {bob, func(j *Job) { j.UTF8, j.Open = true, open(header8) }, script(bare, "hang"),
			"failed 5.6.7"},
		"UTF-8, not needed": {bob, func(j *Job) { j.UTF8 = true },
			script(bare, mail("MAIL FROM:<ann@example.org> SIZE=32"), goodDot, "hang"), "done 2.0.0"},
		"UTF-8 sender":    {bob, func(j *Job) { j.Sender = "änn@example.org" }, script(bare, "hang"), "failed 5.6.7"},
		"UTF-8 recipient": {"böb@example.net", func(j *Job) {}, script(bare, "hang"), "failed 5.6.7"},
		"UTF-8, known": {"böb@example.net", func(j *Job) { j.UTF8, j.Open = true, open(header8) },
			script(full, mail("MAIL FROM:<ann@example.org> SIZE=32 SMTPUTF8"), goodDot, "hang"), "done 2.0.0"},
		"null sender": {bob, func(j *Job) { j.Sender = "" },
			script(full, mail("MAIL FROM:<> SIZE=32"), goodDot, "hang"), "done 2.0.0"},
		"unreadable": {bob, func(j *Job) {
			j.EightBit, j.Open = true,
				func() (io.ReadCloser, error) { return nil, errTest }
		},
			script(bare, "hang"), "later 4.3.0 full"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScripted(t, c.script)
			client := newClient(t, Env{}, nil, s.address)
			j := job(c.to)
			c.change(j)
			want(t, client.Deliver(soon(t), j), c.want)
		})
	}
	t.Run("only who needs it", func(t *testing.T) {
		s := newScripted(t, script(bare, "< MAIL", "< RCPT TO:<a@", "< RCPT TO:<c@", "< DATA", "> 250 ok", "> 250 ok",
			"> 250 ok", "> 354 go", goodDot, "hang"))
		client := newClient(t, Env{}, nil, s.address)
		got := client.Deliver(soon(t), job("a@example.net", "böb@example.net", "c@example.net", "dörte@example.net"))
		want(t, got, "done 2.0.0", "failed 5.6.7", "done 2.0.0", "failed 5.6.7")
		if !got[0].Relayed {
			t.Error("it knows no DSN")
		}
	})
}

// TestDSN: what the sender wants to be told is passed on to who knows it.
func TestDSN(t *testing.T) {
	s := newScripted(t, script(hello,
		"< MAIL FROM:<ann@example.org> SIZE=32 RET=HDRS ENVID=a+2Bb+3D1+20x\r\n",
		"< RCPT TO:<bob@example.net> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;Bob+2Bx@example.net\r\n",
		`< RCPT TO:<"b c"@example.net> NOTIFY=NEVER ORCPT=utf-8;b\x{F6}b@example.net`+"\r\n",
		"< RCPT TO:<d@example.net>\r\n", "< DATA",
		"> 250 ok", "> 250 ok", "> 250 ok", "> 250 ok", "> 354 go", goodDot, "hang"))
	client := newClient(t, Env{}, nil, s.address)
	j := job(bob, "b c@example.net", "d@example.net")
	j.Return, j.Envelope = "HDRS", "a+b=1 x"
	j.Recipients[0].Notify, j.Recipients[0].Original = "SUCCESS,DELAY", "rfc822;Bob+x@example.net"
	j.Recipients[1].Notify, j.Recipients[1].Original = "NEVER", "utf-8;böb@example.net"
	j.Recipients[2].Notify, j.Recipients[2].Original = "NEVER SIZE=1", "x y;z"
	got := client.Deliver(soon(t), j)
	want(t, got, "done 2.0.0", "done 2.0.0", "done 2.0.0")
	if got[0].Relayed {
		t.Error("it knows DSN")
	}
}
