package httpgate

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	behind "weir/upstream"
)

// respond passes the upstream's answer on to the client.
func (x *exchange) respond(res *http.Response, method string) {
	x.replied = res.StatusCode
	x.seePrice(res.Header)
	h := x.w.Header()
	copyEndToEnd(h, res.Header)
	announced := len(res.Trailer)
	if announced > 0 {
		if method != http.MethodHead {
			delete(h, "Content-Length") // in HTTP/1 only a body without a length has trailers
			res.ContentLength = -1
		}
		h["Trailer"] = append(h["Trailer"], strings.Join(slices.Collect(maps.Keys(res.Trailer)), ", "))
	}
	if x.payment != nil {
		x.accepted(res.StatusCode)
		if x.begun.Store(true); x.lost.Load() {
			panic(http.ErrAbortHandler)
		}
	}
	x.WriteHeader(res.StatusCode)
	if method != http.MethodHead && res.StatusCode != http.StatusNotModified && res.StatusCode != http.StatusNoContent {
		if err := x.copyBody(res); err != nil {
			// Half a response must not look like a whole one.
			x.gate.env.Log.Debug("a response was not passed on to its end", "id", x.event.ID, "error", err)
			panic(http.ErrAbortHandler)
		}
	}
	_ = res.Body.Close() // now its trailers are there
	if len(res.Trailer) == 0 {
		return
	}
	_ = http.NewResponseController(x.w).Flush() // trailers come after chunks only
	for name, values := range res.Trailer {
		if len(res.Trailer) != announced {
			name = http.TrailerPrefix + name
		}
		h[name] = append(h[name], values...)
	}
}

// copyBody copies the body, piece by piece as it comes.
func (x *exchange) copyBody(res *http.Response) error {
	if x.length = res.ContentLength; x.length < 0 {
		x.length = math.MaxInt64
	}
	if x.length == 0 {
		return nil
	}
	late := true
	if own, ok := res.Body.(*behind.Body); ok {
		n, all := own.Buffered()
		late = n == 0 && !all
	}
	if late {
		x.headLater()
	}
	buf := buffers.Get().(*buffer)
	defer buffers.Put(buf)
	for {
		n, err := res.Body.Read(buf[:])
		if n > 0 {
			if _, err := x.piece(buf[:n], err == io.EOF); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// upgrade joins the connections to both sides, after the upstream has switched to the protocol that the client wanted.
func (x *exchange) upgrade(res *http.Response, wanted string) {
	got := upgradeOf(res.Header)
	server, ok := res.Body.(io.ReadWriteCloser)
	if !ok || wanted == "" || !strings.EqualFold(got, wanted) {
		x.failed(fmt.Errorf("the upstream switched to %q when asked for %q", got, wanted))
		return
	}
	client, brw, err := x.hijack()
	if err != nil {
		x.failed(fmt.Errorf("the client's connection cannot be switched: %w", err))
		return
	}
	defer client.Close()
	defer server.Close()
	x.replied = res.StatusCode
	x.seePrice(res.Header)
	h := x.w.Header()
	copyEndToEnd(h, res.Header)
	h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{got}
	out := http.Response{StatusCode: res.StatusCode, ProtoMajor: 1, ProtoMinor: 1, Header: h}
	if err := out.Write(brw); err != nil {
		return
	}
	if err := brw.Flush(); err != nil {
		return
	}
	x.tunnel(client, server)
}
