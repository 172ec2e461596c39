package payer

import (
	"bytes"
	"io"
	"net/http"
)

// MaxBody is the largest body without GetBody that is kept, so that it can be sent again.
const MaxBody = 64 << 10

// maxAside is how much of an answer that asks for a stamp is kept meanwhile. The page of a gate is smaller.
const maxAside = 64 << 10

// A body is what a request carries, and whether it can be had again.
type body struct {
	get  func() (io.ReadCloser, error) // nil: it cannot
	kept bool                          // it was read, and each sending takes a copy
	none bool
}

// bodyOf reads the body of a request if it must be kept. One of unknown length is not read, as its reader may wait for
// what is written meanwhile.
func bodyOf(r *http.Request) (*body, error) {
	switch {
	case r.Body == nil || r.Body == http.NoBody:
		return &body{none: true}, nil
	case r.GetBody != nil:
		return &body{get: r.GetBody}, nil
	case r.ContentLength <= 0 || r.ContentLength > MaxBody:
		return &body{}, nil
	}
	// One byte more shows a wrong length, which the base transport reports.
	text, err := io.ReadAll(io.LimitReader(r.Body, r.ContentLength+1))
	r.Body.Close()
	if err != nil {
		return nil, err
	}
	return &body{kept: true, get: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }},
		nil
}

// again reports whether the body can be sent a second time.
func (b *body) again() bool { return b.none || b.get != nil }

func (b *body) put(r *http.Request, round int) (err error) {
	if b.none || round == 0 && !b.kept {
		return nil
	}
	r.Body, err = b.get()
	return err
}

// setAside keeps an answer in memory, so that its connection is free while a stamp is made. A larger one keeps it.
func setAside(resp *http.Response) {
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxAside+1))
	if err == nil && len(head) <= maxAside {
		resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(head))
		return
	}
	rest := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), rest), rest}
}
