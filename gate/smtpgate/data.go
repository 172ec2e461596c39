package smtpgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"weir/mail/spool"
	"weir/store"
)

// maxCommand is how much of a message to the command address is read. Its commands are at the top.
const maxCommand = 256 << 10

// An arrival is a message whose text is coming in.
type arrival struct {
	*session
	tx     *transaction
	id     store.MailID
	at     time.Time
	text   intake
	staged store.Staged // nil for a command
	spare  bytes.Buffer // the text of a command
	head   header
	stamps []string
	digest Digest
}

// errAborted is for a text that the client has given up.
var errAborted = errors.New("given up")

// data takes a text that ends with a dot.
func (s *session) data(arg string) {
	if arg != "" || !s.ready() {
		// Nothing may follow DATA before it is answered (RFC 2920 section 3.1). If something does, it is the text of a
		// client that did not wait, and must not be read as commands. It may also come later: a text begins with the
		// name of a header field, which is no command, and then the session ends.
		if s.texts = true; s.wire.pending() {
			s.over = true
		}
		if arg != "" {
			s.deny(refuse(MailMalformed, 501, 554, "DATA has no parameters"))
			return
		}
		s.early(s.missing())
		return
	}
	s.write("354 end the mail with a dot on a line of its own\r\n")
	s.arrive()
	s.complete(s.wire.text(func(p []byte) {
		s.arrival.text.write(p)
		if s.arrival.text.endless {
			// A client with other line ends may also mean another end of the text, and wait for an answer.
			s.conn.hurried, s.over = true, true
		}
	}))
}

// ready reports whether there is a transaction with recipients and no text.
func (s *session) ready() bool { return s.tx != nil && s.tx.named > 0 && s.arrival == nil }

// missing says why ready is false.
func (s *session) missing() string {
	switch {
	case s.tx == nil:
		return "MAIL first"
	case s.arrival != nil:
		return "the mail goes on with BDAT"
	}
	return "there is no recipient"
}

// bdat takes a chunk of a text. A refused chunk is read all the same, so that nothing in it is taken for a command, and
// the message is given up (RFC 3030 section 4.2). If its length is unknown, the session ends.
func (s *session) bdat(arg string) {
	size, last, err := parseChunk(arg)
	if size < 0 {
		s.over = true
		s.deny(refuse(MailMalformed, 501, 554, "cannot read how long the chunk is"))
		return
	}
	var n *no
	switch {
	case err != nil:
		n = refuse(MailMalformed, 501, 554, "write BDAT size, or BDAT size LAST")
	case s.arrival == nil && !s.ready():
		n = refuse(MailMalformed, 503, 551, s.missing())
	case s.arrival == nil:
		s.arrive()
	}
	if n == nil && size > int64(s.setup.opts.Bounds.Message)-s.arrival.text.size {
		n = tooLarge(&s.setup.opts.Bounds)
	}
	if n != nil {
		s.drop(size, n)
		return
	}
	err = s.wire.chunk(size, s.arrival.text.write)
	if err == nil && !last {
		s.answer(reply(250, 200, fmt.Sprintf("%d octets", size)))
		return
	}
	s.complete(err)
}

// drop reads a refused chunk, gives up the message, and answers.
func (s *session) drop(size int64, n *no) {
	if s.arrival == nil {
		s.conn.receive()
	} else if s.arrival.text.no == nil {
		s.arrival.text.no = n
	}
	err := s.wire.chunk(size, func([]byte) {})
	s.reset()
	switch {
	case err != nil:
		s.broken(err)
	case n.reply.code == 503:
		s.early(n.reply.text)
	default:
		s.deny(n)
	}
}

// complete answers a text that is over. err says why it broke off, or is nil.
func (s *session) complete(err error) {
	a := s.arrival
	if err == nil {
		a.text.close()
	}
	n := a.finish(err)
	s.settle()
	if why, ok := errors.AsType[*end](err); ok && why.says != "" {
		s.farewell(why)
		return
	}
	if err != nil {
		s.over = true
	}
	if n != nil {
		s.deny(n)
		return
	}
	s.answer(reply(250, 200, "OK: queued as "+a.id.String()))
}

// arrive prepares for a text.
func (s *session) arrive() {
	now, tx := s.now(), s.tx
	a := &arrival{session: s, tx: tx, id: s.gate.env.Spool.NewID(now), at: now}
	a.text = intake{bounds: &s.setup.opts.Bounds, begin: a.begin}
	if tx.command {
		a.text.out = &cut{&a.spare, maxCommand}
	} else {
		a.staged = s.gate.env.Spool.Stage()
		a.text.out = a.staged
	}
	s.arrival = a
	s.conn.receive()
}

// A cut writer keeps a beginning, and drops the rest.
type cut struct {
	b    *bytes.Buffer
	most int
}

func (c *cut) Write(p []byte) (int, error) {
	c.b.Write(p[:min(len(p), c.most-c.b.Len())])
	return len(p), nil
}

// begin returns the header that is stored for the one that came.
func (a *arrival) begin(text []byte) ([]byte, *no) {
	marked := a.marked(a.tx)
	if marked && !a.tx.command {
		var n *no
		if text, n = a.recognize(text); n != nil {
			return nil, n
		}
	}
	var stamps []string
	stamps, text = a.gate.env.TakeStamps(text)
	a.head = readHeader(text)
	if !marked { // users write what others say
		a.head.origin = ""
	}
	if a.head.received > a.setup.opts.Bounds.ReceivedHops {
		return nil, refuse(MailLoop, 554, 546,
			fmt.Sprintf("the mail has passed more than %d servers: it is in a loop",
				a.setup.opts.Bounds.ReceivedHops))
	}
	if a.setup.parts.Stamps != nil && len(stamps) > 0 {
		a.stamps, a.digest = stamps, a.setup.parts.Stamps.Digest()
		a.text.body = a.digest
	}
	t := trace{helo: a.tx.helo, source: a.conn.source, host: a.setup.host, id: a.id, tls: a.tls,
		auth: a.tx.who.authenticated, utf8: a.tx.utf8, at: a.at}
	if len(a.tx.to) == 1 {
		t.recipient = a.tx.to[0].Address
	}
	top := make([]byte, 0, 512+len(a.head.text))
	top = t.appendMissing(t.appendTo(top), &a.head)
	return append(top, a.head.text...), nil
}

// finish decides about a message whose text is over, and tells log and observer. err says why it broke off, or is nil.
func (a *arrival) finish(err error) *no {
	receipt, n := a.decide(err)
	a.log(receipt, n)
	how := MailAccepted
	switch {
	case n != nil:
		how = n.how
	case a.tx.command:
		how = MailCommand
	default:
		a.gate.welcome(a.conn)
	}
	a.gate.env.Observer.Mail(how, a.who.name, a.text.size, max(len(a.tx.to), 1))
	return n
}

func (a *arrival) log(r spool.Receipt, n *no) {
	log := a.gate.env.Log
	if !log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs, slog.String("session", a.conn.id), slog.String("mail", a.id.String()),
		slog.String("source", a.conn.source.String()), slog.String("user", a.tx.who.name),
		slog.String("sender", a.tx.sender.String()), slog.Int("recipients", len(a.tx.to)),
		slog.Int64("bytes", a.text.size), slog.String("message_id", a.head.id))
	if a.head.origin != "" {
		attrs = append(attrs, slog.String("queue_id", a.head.origin))
	}
	if n != nil {
		attrs = append(attrs, slog.String("refused", n.how), slog.Int("code", n.reply.code),
			slog.String("why", n.reply.text))
	} else {
		attrs = append(attrs, slog.Int("passed", r.Passed), slog.Int("delayed", r.Delayed), slog.Int("held", r.Held),
			slog.Int("withheld", r.Withheld), slog.Int("pooled", r.Pooled), slog.Int("paid", r.Paid),
			slog.Bool("stopped", r.Stopped))
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, "mail", attrs...)
}
