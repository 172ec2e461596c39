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

// A delivery is a message whose text is coming in.
type delivery struct {
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
	s.deliver()
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
		s.deliver()
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
	d := s.arrival
	if err == nil {
		d.text.close()
	}
	n := d.finish(err)
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
	s.answer(reply(250, 200, "OK: queued as "+d.id.String()))
}

// deliver prepares for a text.
func (s *session) deliver() {
	now, tx := s.now(), s.tx
	d := &delivery{session: s, tx: tx, id: s.gate.env.Spool.NewID(now), at: now}
	d.text = intake{bounds: &s.setup.opts.Bounds, begin: d.begin}
	if tx.command {
		d.text.out = &cut{&d.spare, maxCommand}
	} else {
		d.staged = s.gate.env.Spool.Stage()
		d.text.out = d.staged
	}
	s.arrival = d
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
func (d *delivery) begin(text []byte) ([]byte, *no) {
	marked := d.marked(d.tx)
	if marked && !d.tx.command {
		var n *no
		if text, n = d.recognize(text); n != nil {
			return nil, n
		}
	}
	var stamps []string
	stamps, text = d.gate.env.TakeStamps(text)
	d.head = readHeader(text)
	if !marked { // users write what others say
		d.head.origin = ""
	}
	if d.head.received > d.setup.opts.Bounds.ReceivedHops {
		return nil, refuse(MailLoop, 554, 546,
			fmt.Sprintf("the mail has passed more than %d servers: it is in a loop",
				d.setup.opts.Bounds.ReceivedHops))
	}
	if d.setup.parts.Stamps != nil && len(stamps) > 0 {
		d.stamps, d.digest = stamps, d.setup.parts.Stamps.Digest()
		d.text.body = d.digest
	}
	t := trace{helo: d.tx.helo, source: d.conn.source, host: d.setup.host, id: d.id, tls: d.tls,
		auth: d.tx.who.authenticated, utf8: d.tx.utf8, at: d.at}
	if len(d.tx.to) == 1 {
		t.recipient = d.tx.to[0].Address
	}
	top := make([]byte, 0, 512+len(d.head.text))
	top = t.appendMissing(t.appendTo(top), &d.head)
	return append(top, d.head.text...), nil
}

// finish decides about a message whose text is over, and tells log and observer. err says why it broke off, or is nil.
func (d *delivery) finish(err error) *no {
	receipt, n := d.decide(err)
	d.log(receipt, n)
	how := MailAccepted
	switch {
	case n != nil:
		how = n.how
	case d.tx.command:
		how = MailCommand
	default:
		d.gate.welcome(d.conn)
	}
	d.gate.env.Observer.Mail(how, d.who.name, d.text.size, max(len(d.tx.to), 1))
	return n
}

func (d *delivery) log(r spool.Receipt, n *no) {
	log := d.gate.env.Log
	if !log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs, slog.String("session", d.conn.id), slog.String("mail", d.id.String()),
		slog.String("source", d.conn.source.String()), slog.String("user", d.tx.who.name),
		slog.String("sender", d.tx.sender.String()), slog.Int("recipients", len(d.tx.to)),
		slog.Int64("bytes", d.text.size), slog.String("message_id", d.head.id))
	if d.head.origin != "" {
		attrs = append(attrs, slog.String("queue_id", d.head.origin))
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
