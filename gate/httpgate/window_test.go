package httpgate

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"weir"
)

// A client of HTTP/2 that never opens its window keeps no stream, however small the answer is. One whose answer takes
// longer than that is served.
func TestStreamsThatTakeTheirTime(t *testing.T) {
	const quick = 200 * time.Millisecond
	asked, answer := make(chan bool, 1), make(chan bool)
	slow := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			asked <- true
			select {
			case <-answer:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, "hello")
	})
	g := start(t, Options{Upstream: to(slow.URL), Timeouts: Timeouts{Progress: weir.Duration(quick)}})
	patient := g.stream("/slow", 65535)
	receive(t, asked)
	for range 2 { // one after the other: the timeout passes twice
		if text, ended := g.stream("/", 0)(); text != "" || ended == nil {
			t.Errorf("%q, %v: the client has no room for an answer", text, ended)
		}
	}
	close(answer)
	if text, ended := patient(); text != "hello" || ended != nil {
		t.Errorf("%q, %v", text, ended)
	}
}

// stream asks for a path by HTTP/2, with that much room for the answer. What it returns reads the answer, and why the
// stream was ended if it was.
func (r *rig) stream(path string, window uint32) func() (text string, ended error) {
	t := r.t
	t.Helper()
	c := r.dial()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	fr := http2.NewFramer(c, c)
	if err := fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
		t.Fatal(err)
	}
	var head bytes.Buffer
	e := hpack.NewEncoder(&head)
	for _, f := range [][2]string{{":method", "GET"}, {":path", path}, {":scheme", "http"}, {":authority", "a"}} {
		_ = e.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	if err := fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: head.Bytes(), EndStream: true,
		EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	return func() (text string, ended error) {
		t.Helper()
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				t.Fatal(err)
			}
			switch f := f.(type) {
			case *http2.SettingsFrame:
				if !f.IsAck() {
					_ = fr.WriteSettingsAck()
				}
			case *http2.RSTStreamFrame:
				return text, http2.StreamError{StreamID: 1, Code: f.ErrCode}
			case *http2.DataFrame:
				text += string(f.Data())
				if f.StreamEnded() {
					return text, nil
				}
			}
		}
	}
}
