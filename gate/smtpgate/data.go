package smtpgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/emersion/go-smtp"

	"weir/spool"
	"weir/store"
)

// maxCommand is how much of a mail to the command address is read: what is above the quoted notice, and more.
const maxCommand = 256 << 10

// pieces are the buffers through which texts come in.
var pieces = sync.Pool{New: func() any { return new([32 << 10]byte) }}

// A delivery is a mail whose text is coming in.
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

// Data takes the text of a mail. It reads it to the end whatever happens: what is left over of a chunk would be taken for a command.
func (s *session) Data(r io.Reader) error {
	if err := s.leaving(); err != nil {
		return err
	}
	end := min(time.Now().Add(s.setup.opts.Timeouts.Data.Std()).UnixNano(), s.conn.patience())
	s.conn.dataEnd.Store(end)
	defer s.conn.dataEnd.CompareAndSwap(end, 0)
	pipe, chunked := r.(*io.PipeReader)
	if chunked {
		r = &chunks{pipe, s.conn}
		// Reading nothing waits until there is something to read: then BDAT is under way, and the transaction is the one that it means.
		// Before, or later, RSET and MAIL may have put another one in its place.
		if _, err := r.Read(nil); errors.Is(err, smtp.ErrDataReset) {
			forsake()
		}
	}
	tx := s.take(nil)
	if tx == nil {
		return reply(503, 551, "MAIL first")
	}
	s.gate.enter()
	defer s.gate.leave()
	defer func() { tx.settle(s.now(), false) }()
	d := s.deliver(tx)
	defer d.discard()
	err := d.read(r, chunked)
	if err == io.EOF {
		d.text.close()
	}
	answer := d.finish(err)
	if chunked && errors.Is(err, smtp.ErrDataReset) {
		forsake()
	}
	return answer
}

// forsake ends the goroutine on which go-smtp has called Data for chunks that were given up. Nobody waits for the answer; to return it would
// be to give it to the chunks that come next (go-smtp keeps one channel for both).
func forsake() { runtime.Goexit() }

// read takes the text in, to its end.
func (d *delivery) read(r io.Reader, chunked bool) (err error) {
	buf := pieces.Get().(*[32 << 10]byte)
	defer pieces.Put(buf)
	seen := 0
	take := func(n int) {
		d.text.write(buf[seen:n])
		seen = n
		if d.text.endless && !chunked {
			// Who ends lines otherwise may mean another end of the mail, too, and wait for an answer.
			d.conn.hurried.Store(true)
			d.conn.last.Store(true)
		}
	}
	if !chunked {
		// go-smtp fills the buffer before it gives it back. What is in it already must be seen before more is waited for: it is what
		// comes before the first NUL, which no mail has.
		d.conn.glimpse = func() {
			if n := bytes.IndexByte(buf[seen:], 0); n > 0 {
				take(seen + n)
			}
		}
		defer func() { d.conn.glimpse = nil }()
	}
	for err == nil {
		if seen = 0; !chunked {
			clear(buf[:])
		}
		var n int
		n, err = r.Read(buf[:])
		take(n)
	}
	return err
}

// chunks is the text that BDAT brings. It tells the connection while it is waited for.
type chunks struct {
	pipe *io.PipeReader
	conn *conn
}

func (c *chunks) Read(p []byte) (int, error) {
	c.conn.hungry.Store(1 + c.conn.in.Load())
	defer c.conn.hungry.Store(0)
	return c.pipe.Read(p)
}

// deliver makes ready for a text.
func (s *session) deliver(tx *transaction) *delivery {
	now := s.now()
	d := &delivery{session: s, tx: tx, id: s.gate.env.Spool.NewID(now), at: now}
	d.text = intake{bounds: &s.setup.opts.Bounds, begin: d.begin}
	if tx.command {
		d.text.out = &cut{&d.spare, maxCommand}
	} else {
		d.staged = s.gate.env.Spool.Stage()
		d.text.out = d.staged
	}
	return d
}

// A cut writer takes a beginning, and drops what follows.
type cut struct {
	b    *bytes.Buffer
	most int
}

func (c *cut) Write(p []byte) (int, error) {
	c.b.Write(p[:min(len(p), c.most-c.b.Len())])
	return len(p), nil
}

func (d *delivery) discard() {
	if d.staged != nil {
		d.staged.Discard()
	}
}

// begin makes of the header that came the one that goes on.
func (d *delivery) begin(text []byte) ([]byte, *no) {
	if d.marked(d.tx) && !d.tx.command {
		var n *no
		if text, n = d.recognize(text); n != nil {
			return nil, n
		}
	}
	var stamps []string
	stamps, text = d.gate.env.TakeStamps(text)
	d.head = readHeader(text)
	if d.head.received > d.setup.opts.Bounds.ReceivedHops {
		return nil, refuse(MailLoop, 554, 546, fmt.Sprintf("the mail has passed more than %d servers: it goes round in a circle", d.setup.opts.Bounds.ReceivedHops))
	}
	if d.setup.parts.Stamps != nil && len(stamps) > 0 {
		d.stamps, d.digest = stamps, d.setup.parts.Stamps.Digest()
		d.text.body = d.digest
	}
	t := trace{helo: d.tx.helo, source: d.conn.source, host: d.setup.host, id: d.id, tls: d.tls, auth: d.tx.who.authenticated, utf8: d.tx.utf8, at: d.at}
	if len(d.tx.to) == 1 {
		t.recipient = d.tx.to[0].Address
	}
	top := make([]byte, 0, 512+len(d.head.text))
	top = t.appendMissing(t.appendTo(top), &d.head)
	return append(top, d.head.text...), nil
}

// finish decides about a mail whose text is over.
func (d *delivery) finish(err error) error {
	receipt, n := d.decide(err)
	size := d.text.size
	d.log(receipt, n)
	observer := d.gate.env.Observer
	if n != nil {
		observer.Mail(n.how, size, max(len(d.tx.to), 1))
		return d.count(n)
	}
	how := MailAccepted
	if d.tx.command {
		how = MailCommand
	} else {
		d.gate.welcome(d.conn)
	}
	observer.Mail(how, size, max(len(d.tx.to), 1))
	return reply(250, 200, "OK: queued as "+d.id.String()) // go-smtp would not say as what
}

// log writes a line about the mail.
func (d *delivery) log(r spool.Receipt, n *no) {
	log := d.gate.env.Log
	if !log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	attrs := make([]slog.Attr, 0, 12)
	attrs = append(attrs, slog.String("session", d.conn.id), slog.String("mail", d.id.String()), slog.String("source", d.conn.source.String()),
		slog.String("user", d.tx.who.name), slog.String("sender", d.tx.sender.String()), slog.Int("recipients", len(d.tx.to)), slog.Int64("bytes", d.text.size))
	if n != nil {
		attrs = append(attrs, slog.String("refused", n.how), slog.Int("code", n.reply.Code), slog.String("why", n.reply.Message))
	} else {
		attrs = append(attrs, slog.Int("passed", r.Passed), slog.Int("delayed", r.Delayed), slog.Int("held", r.Held), slog.Int("withheld", r.Withheld), slog.Int("pooled", r.Pooled),
			slog.Int("paid", r.Paid),
			slog.Bool("stopped", r.Stopped))
	}
	log.LogAttrs(context.Background(), slog.LevelInfo, "mail", attrs...)
}
