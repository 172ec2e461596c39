package nexthop

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"weir/internal/shown"
)

// A transaction hands one message over a connection, for some of its recipients.
type transaction struct {
	*conn
	job     *Job
	part    []int    // which of its recipients
	results []Result // of all of its recipients
	rest    []int    // those that need another transaction
	utf8    bool     // it needs SMTPUTF8

	refused bool   // the server refuses the sender
	refusal Result // of the sender
	goAhead bool   // the server waits for the text
}

// transact hands a message over. It returns the recipients that need another transaction, or why the connection could
// not be used: then nothing has happened, and the results of these recipients mean nothing.
func (c *conn) transact(ctx context.Context, j *Job, part []int, results []Result) (rest []int, lost *trouble) {
	t := &transaction{conn: c, job: j, part: part, results: results}
	c.accepted = c.accepted[:0]
	if n := c.ext.recipients; n > 0 && len(part) > n {
		t.part, t.rest = part[:n], append(t.rest, part[n:]...)
	}
	if err := t.fit(); err != nil {
		t.ours(t.part, err)
		return nil, nil
	}
	if len(t.part) == 0 {
		return t.rest, nil
	}
	text, err := j.Open()
	if err != nil {
		t.ours(t.part, fmt.Errorf("the text cannot be read: %w", err))
		return nil, nil
	}
	defer text.Close()
	defer c.watch(ctx)()
	c.mails++
	if lost := t.envelope(); lost != nil {
		return nil, lost
	}
	if t.refused || len(t.accepted) == 0 {
		t.turnBack()
		return t.rest, nil
	}
	if !t.goAhead {
		return t.rest, nil
	}
	return t.rest, t.data(ctx, text)
}

// ours is the result of a failure on our side, for which no other server is tried.
func (t *transaction) ours(who []int, err error) {
	fill(t.results, who, Result{Outcome: Later, Status: statusOurs, Text: shown.Plain(err.Error(), maxReplyText)})
}

func (t *transaction) fail(who []int, status, text string) {
	fill(t.results, who, Result{Outcome: Failed, Status: status, Text: text, Server: t.server.address})
}

// fit fails the recipients, or all of them, that the server cannot take for lack of an extension.
func (t *transaction) fit() error {
	j, e := t.job, &t.ext
	if e.size > 0 && j.Size > e.size {
		t.fail(t.part, statusTooLarge, fmt.Sprintf("the mail has %d bytes, the server takes %d", j.Size, e.size))
		t.part = nil
		return nil
	}
	wide := func(i int) bool { return !shown.ASCII(j.Sender) || !shown.ASCII(j.Recipients[i].Address) }
	if !e.utf8 && slices.ContainsFunc(t.part, wide) {
		t.part = slices.DeleteFunc(slices.Clone(t.part), func(i int) bool {
			if !wide(i) {
				return false
			}
			t.fail([]int{i}, StatusUTF8, "the address needs SMTPUTF8, which the server does not know")
			return true
		})
	}
	t.utf8 = j.UTF8 || slices.ContainsFunc(t.part, wide)
	if e.utf8 && e.eightBit || !j.UTF8 && !j.EightBit || len(t.part) == 0 {
		return nil
	}
	header, body, err := eightBit(j.Open)
	switch {
	case err != nil:
		return fmt.Errorf("the text cannot be read: %w", err)
	case !e.utf8 && j.UTF8 && header:
		t.fail(t.part, StatusUTF8, "the mail needs SMTPUTF8, which the server does not know")
		t.part = nil
	case !e.eightBit && (header || body):
		t.fail(t.part, StatusEightBit, "the mail needs 8BITMIME, which the server does not know")
		t.part = nil
	}
	return nil
}

// The commands of an envelope, by number: RSET if the last transaction was left open, MAIL, a RCPT for each recipient,
// DATA.
const (
	cmdRset = iota
	cmdMail
	cmdRcpt
)

// verb is the name of a command.
func verb(cmd, data int) string {
	switch cmd {
	case cmdRset:
		return "RSET"
	case cmdMail:
		return "MAIL"
	case data:
		return "DATA"
	}
	return "RCPT"
}

// envelope sends everything up to DATA, in one piece if the server has PIPELINING, and reads the answers.
func (t *transaction) envelope() *trouble {
	data := cmdRcpt + len(t.part)
	next := cmdMail
	if t.dirty {
		next = cmdRset
	}
	t.dirty = true
	for cmd := next; cmd <= data; cmd++ {
		if t.refused || next == data && len(t.accepted) == 0 {
			return nil
		}
		t.command(cmd, data)
		if t.ext.pipelining && cmd < data && t.out.Buffered() < window {
			continue
		}
		if err := t.out.Flush(); err != nil {
			return t.lostAt(next, data, err)
		}
		for ; next <= cmd; next++ {
			r, err := t.read(t.limits.Command.Std(), nil)
			if err == nil {
				err = t.answered(next, data, r)
			}
			if err != nil {
				return t.lostAt(next, data, err)
			}
		}
	}
	return nil
}

func (t *transaction) command(cmd, data int) {
	switch cmd {
	case cmdMail:
		t.mail()
	case cmdRset, data:
		t.say(verb(cmd, data))
	default:
		t.rcpt(&t.job.Recipients[t.part[cmd-cmdRcpt]])
	}
	t.say("\r\n")
}

// A closing is the reply of a server that closes the connection.
type closing struct{ reply }

func (closing) Error() string { return "the server closes the connection" }

// answered takes the answer to a command.
func (t *transaction) answered(cmd, data int, r reply) error {
	switch class := r.class(); {
	case r.code == 421 || cmd == cmdRset && class > 3:
		return closing{r}
	case (class == 3) != (cmd == data) && class < 4:
		return fmt.Errorf("%w: %d %.64q", errReply, r.code, r.text)
	case cmd == cmdRset:
	case cmd == cmdMail:
		if class != 2 {
			t.refused, t.refusal = true, r.result(t.server.address)
		}
	case cmd == data:
		if t.goAhead = class == 3; !t.goAhead {
			fill(t.results, t.accepted, r.result(t.server.address))
		}
	default:
		t.answeredRcpt(t.part[cmd-cmdRcpt], r)
	}
	return nil
}

func (t *transaction) answeredRcpt(i int, r reply) {
	if r.class() == 2 {
		t.accepted = append(t.accepted, i)
		return
	}
	res := r.result(t.server.address)
	if r.code == 452 && len(t.accepted) > 0 && (res.Status == "4.5.3" || r.length == 0) {
		// Too many recipients for one transaction (RFC 5321 section 4.5.3.1.10).
		t.rest = append(t.rest, i)
	}
	t.results[i] = res
}

// lostAt is for a connection that ended before a command was answered.
func (t *transaction) lostAt(cmd, data int, err error) *trouble {
	var lost *trouble
	if c, ok := err.(closing); ok {
		lost = t.declined("the server closes the connection", c.reply)
	} else {
		lost = t.lost("waiting for the answer to "+verb(cmd, data), err)
	}
	lost.early = cmd <= cmdMail
	return lost
}

// turnBack ends a transaction that has no sender or no recipient.
func (t *transaction) turnBack() {
	if t.refused {
		fill(t.results, t.part, t.refusal)
	}
	if !t.goAhead {
		return
	}
	if len(t.accepted) > 0 {
		t.broken = true // a dot would send them an empty mail
		return
	}
	// The server waits for a text to nobody (RFC 2920 section 3.1).
	if _, err := t.ask(nil, "."); err != nil {
		t.broken = true
	}
}

// data sends the text, and reads the answer. A short text and its dot are one write, after Committed.
func (t *transaction) data(ctx context.Context, text io.Reader) *trouble {
	s := stuffer{w: t.out}
	err := t.copy(&s, text)
	switch {
	case err == nil && ctx.Err() != nil:
		return t.lost("sending the text", ctx.Err())
	case err == nil:
	case s.failed != nil:
		return t.cutOff(err)
	case errors.Is(err, errBareLine):
		t.broken = true
		t.fail(t.accepted, statusBadText, err.Error())
		return nil
	default:
		t.broken = true
		t.ours(t.accepted, fmt.Errorf("the text cannot be read: %w", err))
		return nil
	}
	if t.job.Committed != nil {
		if err := t.job.Committed(); err != nil {
			t.broken = true
			t.ours(t.accepted, err)
			return nil
		}
	}
	t.dot()
	t.out.WriteString(".\r\n")
	if err := t.out.Flush(); err != nil {
		return t.cutOff(err) // the write was not complete, and the dot is at its end
	}
	return t.final()
}

func (t *transaction) copy(s *stuffer, text io.Reader) error {
	if _, whole := text.(io.WriterTo); !whole && t.copyBuf == nil {
		t.copyBuf = make([]byte, outBuffer)
	}
	if _, err := io.CopyBuffer(s, text, t.copyBuf); err != nil {
		return err
	}
	return s.end()
}

// cutOff is for a server that did not take all of the text. It may have said why.
func (t *transaction) cutOff(err error) *trouble {
	t.broken = true
	r, silent := t.read(lastWords, nil)
	if silent != nil || r.class() < 4 {
		return t.lost("sending the text", err)
	}
	if r.code == 421 {
		return t.declined("the server closes the connection", r)
	}
	fill(t.results, t.accepted, r.result(t.server.address))
	return nil
}

// final reads the answer to the final dot: by LMTP, one for each recipient that was accepted.
func (t *transaction) final() *trouble {
	answers := 1
	if t.server.lmtp {
		answers = len(t.accepted)
	}
	for n := range answers {
		r, err := t.read(t.limits.Data.Std(), nil)
		if err == nil && r.class() == 3 {
			err = fmt.Errorf("%w: %d %.64q", errReply, r.code, r.text)
		}
		if err != nil {
			t.ambiguous(t.accepted[n:], err)
			return nil
		}
		if r.code == 421 {
			t.broken = true
			if !t.server.lmtp {
				return t.declined("the server closes the connection", r)
			}
		}
		res := r.result(t.server.address)
		res.Relayed = res.Outcome == Done && !t.ext.dsn
		who := t.accepted
		if t.server.lmtp {
			who = t.accepted[n : n+1]
		}
		fill(t.results, who, res)
	}
	t.dirty = false
	// With an extra reply in the buffer, the next one would be taken for the answer to another command.
	t.broken = t.broken || t.in.Buffered() > 0
	return nil
}

// ambiguous is for recipients that may or may not have the message: only the server knows.
func (t *transaction) ambiguous(who []int, err error) {
	t.broken = true
	fill(t.results, who, Result{Outcome: Ambiguous, Status: statusConnection, Server: t.server.address,
		Text: shown.Plain("no answer after the end of the text: "+plainly(err), maxReplyText)})
}
