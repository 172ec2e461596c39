package upstream

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir"
	"weir/internal/testkit/needs"
)

// TestKeptBodyBound: a body of the largest size is sent again, one byte more is not, whether its length is known or
// not.
func TestKeptBodyBound(t *testing.T) {
	noneLeft(t)
	const most = 20_000
	var asked atomic.Int32
	for _, scheme := range []string{"http:", "h2c:"} {
		p := start(t, Options{Servers: []string{strings.Replace(answers(t, 503, &asked), "http:", scheme, 1),
			strings.Replace(echoes(t), "http:", scheme, 1)}, Balance: First,
			Retries: Retries{On: []string{"503"}, Body: most, Budget: new(weir.Share(1))}})
		for _, chunked := range []bool{false, true} {
			for _, size := range []int{1, firstKept, firstKept + 1, most - 1, most, most + 1, 2 * most} {
				text := strings.Repeat("x", size)
				r := request(t, "PUT", "/", strings.NewReader(text))
				if chunked {
					r.ContentLength = -1
				}
				res, body, err := p.do(r)
				switch {
				case err != nil:
					t.Fatal(err)
				case size <= most && body != fmt.Sprintf("PUT %q ", text):
					t.Errorf("%s %d of %d, chunked %t: %d %.40q", scheme, size, most, chunked, res.StatusCode, body)
				case size > most && res.StatusCode != 503:
					t.Errorf("%s %d of %d, chunked %t: sent again", scheme, size, most, chunked)
				}
				needs.Wait(t, "freed", func() bool { return p.Kept() == 0 })
			}
		}
		p.idle()
	}
}

// TestKeptBodyTrailers: trailers are sent again with the body.
func TestKeptBodyTrailers(t *testing.T) {
	var asked atomic.Int32
	p := start(t, Options{Servers: []string{answers(t, 503, &asked), echoes(t)}, Balance: First,
		Retries: Retries{On: []string{"503"}, Body: 1000}})
	r := request(t, "PUT", "/", strings.NewReader("hello"))
	r.ContentLength, r.Trailer = -1, http.Header{"X-Sum": {"five"}}
	if _, body, err := p.do(r); err != nil || body != `PUT "hello" five` {
		t.Errorf("%q %v", body, err)
	}
}

// A trickle is a body that comes when the test says so.
type trickle struct {
	waits  chan bool // told before a read waits; nil for nobody
	pieces chan string
	rest   string
	ends   error
}

func (b *trickle) Read(p []byte) (int, error) {
	if b.rest == "" {
		if b.waits != nil {
			b.waits <- true
		}
		piece, ok := <-b.pieces
		if !ok {
			return 0, b.ends
		}
		b.rest = piece
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

func (b *trickle) Close() error { return nil }

// TestKeptBodyUnderWay: a server fails in the middle of a body that still comes. The next one gets all of it, although
// the sender of the first was still reading.
func TestKeptBodyUnderWay(t *testing.T) {
	noneLeft(t)
	failing := make(chan bool)
	broken := script(t, func(c net.Conn, br *bufio.Reader) {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		_, _ = io.ReadFull(r.Body, make([]byte, 5))
		<-failing
	})
	p := start(t, Options{Servers: []string{broken, echoes(t)}, Balance: First, Retries: Retries{Body: 1000}})
	body := &trickle{pieces: make(chan string), ends: io.EOF}
	r := request(t, "PUT", "/", body)
	r.ContentLength = -1
	done := make(chan string)
	go func() {
		_, got, err := p.do(r)
		if err != nil {
			got = err.Error()
		}
		done <- got
	}()
	body.pieces <- "hello"
	failing <- true
	needs.Wait(t, "the next try", func() bool { return strings.Contains(p.seen.String(), "retried") })
	body.pieces <- " and "
	body.pieces <- "good bye"
	close(body.pieces)
	if got := receive(t, done); got != `PUT "hello and good bye" ` {
		t.Error(got)
	}
	p.idle()
	needs.Wait(t, "freed", func() bool { return p.Kept() == 0 })
}

// TestKeptBodies: bodies of all requests take no more than the bound. One beyond it passes, and is not tried again.
func TestKeptBodies(t *testing.T) {
	noneLeft(t)
	var asked atomic.Int32
	arrived, goOn := make(chan bool), make(chan bool)
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		asked.Add(1)
		arrived <- true
		<-goOn
		w.WriteHeader(503)
	}).URL
	p := start(t, Options{Servers: []string{slow, echoes(t)}, Balance: First,
		Retries: Retries{On: []string{"503"}, Body: 2 * firstKept, Bodies: 4 * firstKept}})
	statuses := make(chan int, 3)
	text := strings.Repeat("x", 2*firstKept)
	for i := range 3 {
		go func() {
			res, body, err := p.do(request(t, "PUT", "/", strings.NewReader(text)))
			if err != nil || res.StatusCode == 200 && body != fmt.Sprintf("PUT %q ", text) {
				t.Error(err, body)
				statuses <- 0
				return
			}
			statuses <- res.StatusCode
		}()
		receive(t, arrived)
		if want := int64(min(i+1, 2) * 2 * firstKept); p.Kept() != want {
			t.Errorf("%d requests: %d bytes are kept, want %d", i+1, p.Kept(), want)
		}
	}
	if got := strings.Count(p.seen.String(), "bound "+BoundBodies); got != 1 {
		t.Error(p.seen)
	}
	close(goOn)
	got := map[int]int{}
	for range 3 {
		got[receive(t, statuses)]++
	}
	if got[200] != 2 || got[503] != 1 {
		t.Error(got)
	}
	needs.Wait(t, "freed", func() bool { return p.Kept() == 0 })
}

// TestKeptBodyFails: what a client breaks off is its own failure, in the first try and in the second.
func TestKeptBodyFails(t *testing.T) {
	noneLeft(t)
	broken := script(t, func(_ net.Conn, br *bufio.Reader) {
		if r, err := http.ReadRequest(br); err == nil {
			_, _ = io.ReadFull(r.Body, make([]byte, 5))
		}
	})
	left := errors.New("the client has left")
	for name, servers := range map[string][]string{"first": {echoes(t)}, "second": {broken, echoes(t)}} {
		p := start(t, Options{Servers: servers, Balance: First, Retries: Retries{Body: 1000}})
		body := &trickle{pieces: make(chan string, 1), ends: left}
		r := request(t, "PUT", "/", body)
		r.ContentLength = -1
		done := make(chan error)
		go func() {
			_, _, err := p.do(r)
			done <- err
		}()
		body.pieces <- "hello"
		if len(servers) > 1 {
			needs.Wait(t, "the next try", func() bool { return strings.Contains(p.seen.String(), "retried") })
		}
		close(body.pieces)
		if err := receive(t, done); err != left {
			t.Errorf("%s: %v", name, err)
		}
		if s := p.Stats()[len(servers)-1]; s.Failures != 0 || !s.Well {
			t.Errorf("%s: %+v", name, s)
		}
		p.idle()
		needs.Wait(t, "freed", func() bool { return p.Kept() == 0 })
	}
}

// TestKeptBodyReadForTheNext: a read of a try that was called off meanwhile is for the next try, even if it is more
// than what is kept.
func TestKeptBodyReadForTheNext(t *testing.T) {
	p := start(t, Options{Servers: []string{"http://127.0.0.1:1"}, Retries: Retries{Body: 5}})
	body := &trickle{waits: make(chan bool), pieces: make(chan string), ends: io.EOF}
	tr := tries{pool: p.Pool}
	k := &Call{Request: request(t, "PUT", "/", body)}
	tr.keep(k.Request)
	tr.renew(k)
	first := make(chan error)
	go func(r io.Reader) {
		_, err := io.ReadAll(r)
		first <- err
	}(k.Request.Body)
	<-body.waits
	body.pieces <- "hello"
	<-body.waits // for what is beyond the bound
	if !tr.kept.again() {
		t.Fatal("what has been read is not there")
	}
	tr.renew(k)
	second := make(chan string)
	go func() {
		text, err := io.ReadAll(k.Request.Body)
		second <- fmt.Sprintf("%s %v", text, err)
	}()
	body.pieces <- " and good"
	if err := receive(t, first); err != errCalledOff {
		t.Error(err)
	}
	<-body.waits
	body.pieces <- " bye"
	<-body.waits
	close(body.pieces)
	if got := receive(t, second); got != "hello and good bye <nil>" {
		t.Error(got)
	}
	if tr.release(); tr.kept.again() || p.Kept() != 0 {
		t.Errorf("%d bytes are kept", p.Kept())
	}
}

// TestKeptReaders: whoever reads, and however often a try is called off in the middle, the last try gets every byte
// once and in order.
func TestKeptReaders(t *testing.T) {
	p := start(t, Options{Servers: []string{"http://127.0.0.1:1"}, Retries: Retries{Body: 10_000, Bodies: 40_000}})
	for round := range 300 {
		want := make([]byte, round*50) // some are larger than what is kept
		for i := range want {
			want[i] = byte(i * 7)
		}
		tr := tries{pool: p.Pool}
		r := request(t, "PUT", "/", nil)
		r.Body = io.NopCloser(iotestPieces(want, round%97+1))
		r.ContentLength = -1
		tr.keep(r)
		var all sync.WaitGroup
		k := &Call{Request: r}
		tr.renew(k)
		possible := true
		for range round % 4 {
			stale := k.Request.Body
			all.Go(func() { _, _ = io.ReadAll(stale); _ = stale.Close() })
			if possible = tr.kept.again(); !possible {
				break
			}
			tr.renew(k)
		}
		if !possible { // then there is no other try
			all.Wait()
			tr.drop()
			continue
		}
		if round%2 == 0 {
			tr.release() // the answer came before the end of the body
		}
		got, err := io.ReadAll(k.Request.Body)
		if err == nil && !bytes.Equal(got, want) {
			t.Fatalf("round %d: %d bytes of %d, or other ones", round, len(got), len(want))
		}
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		all.Wait()
		_ = k.Request.Body.Close()
		tr.release()
		if p.Kept() != 0 {
			t.Fatalf("round %d: %d bytes are still kept", round, p.Kept())
		}
	}
}

// iotestPieces reads a text in pieces.
func iotestPieces(text []byte, piece int) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if len(text) == 0 {
			return 0, io.EOF
		}
		n := copy(p[:min(len(p), piece)], text)
		text = text[n:]
		return n, nil
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
