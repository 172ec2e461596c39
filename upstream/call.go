package upstream

import (
	"io"
	"net/http"

	"weir/internal/http1"
)

// A Call is a request to a service, and its answer. Its memory may be used again after Reset, once the answer's body
// has been closed and, if the request has one, its own too.
type Call struct {
	// Request is what is asked: method, URL, host, body and trailers. Its Header is not looked at.
	Request *http.Request
	// Fields are its header fields. Names and values must be good ones: see Sendable.
	Fields http1.Fields
	// Target is path and query as they are sent, from the first slash on; "" for those of the URL.
	Target string

	// Answer is the head of the answer.
	Answer http1.Head
	// Length is that of the answer's body, or -1 where it is not known.
	Length int64
	// Body is that of the answer. It is never nil after a call that succeeded, and must be closed. After 101 it is an
	// io.Writer too.
	Body io.ReadCloser
	// Trailer has the names of announced trailers, and their values after the body has been read.
	Trailer http.Header
	// Close means that the server ends the connection with this answer.
	Close bool

	body Body // of our own client
}

// Reset makes ready for another call.
func (k *Call) Reset() {
	k.Fields.Reset()
	k.Answer.Begin(http1.Answer)
	k.Request, k.Target, k.Length, k.Body, k.Trailer, k.Close, k.body = nil, "", 0, nil, nil, false, Body{}
}

// Do gives a request to a server and returns its answer, whose body must be closed. The request's headers are not
// touched after it has returned. An Error means that no server answered; others are of the request's context or body.
func (p *Pool) Do(r *http.Request, by Caller) (*http.Response, error) {
	k := &Call{Request: r}
	k.Fields.AddHeader(r.Header)
	if err := Sendable(k); err != nil {
		return nil, err
	}
	if err := p.Send(k, by); err != nil {
		return nil, err
	}
	return k.response(), nil
}

// response is the answer as net/http has it.
func (k *Call) response() *http.Response {
	a := &k.Answer
	res := &http.Response{Status: a.Reason, StatusCode: a.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: a.Minor,
		Header: a.Fields.Header(), ContentLength: k.Length, Request: k.Request, Body: k.Body, Trailer: k.Trailer,
		Close: k.Close}
	if a.Minor == 0 {
		res.Proto = "HTTP/1.0"
	}
	if a.Chunked {
		res.TransferEncoding = chunkedCoding
	}
	k.body.res = res // trailers that were not announced come with its end
	return res
}

var chunkedCoding = []string{"chunked"}
