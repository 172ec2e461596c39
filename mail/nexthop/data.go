package nexthop

import (
	"context"
	"errors"
	"fmt"
	"io"
)

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

// ambiguous is for recipients of whom only the server knows whether they have the message.
func (t *transaction) ambiguous(who []int, err error) {
	t.broken = true
	fill(t.results, who, Result{Outcome: Ambiguous, Status: statusConnection, Server: t.server.address,
		Text: clip("no answer after the end of the text: " + plainly(err))})
}
