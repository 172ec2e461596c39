package httpgate

import (
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"weir/internal/splice"
	behind "weir/upstream"
)

// respond passes the upstream's answer on to the client.
func (x *exchange) respond(k *behind.Call) {
	status, method := k.Answer.Status, x.r.Method
	x.replied = status
	x.seePrice(&k.Answer.Fields)
	x.expectTrailers(k)
	announced := len(k.Trailer)
	if announced > 0 {
		if method != http.MethodHead {
			k.Answer.Fields.Del("Content-Length") // in HTTP/1 only a body without a length has trailers
			k.Length = -1
		}
		x.w.Header()["Trailer"] = []string{strings.Join(slices.Collect(maps.Keys(k.Trailer)), ", ")}
	}
	x.passOn(&k.Answer.Fields)
	x.accepted(status)
	if x.begun.Store(true); x.lost.Load() {
		panic(http.ErrAbortHandler)
	}
	if x.bodied && x.converses() && !x.bodyRead.Load() {
		x.readDeadline(time.Time{})
	}
	x.WriteHeader(status)
	if method != http.MethodHead && status != http.StatusNotModified && status != http.StatusNoContent {
		if err := x.copyBody(k); err != nil {
			// Half a response must not look like a whole one.
			x.gate.env.Log.Debug("a response was not passed on to its end", "id", x.event.ID, "error", err)
			panic(http.ErrAbortHandler)
		}
	}
	_ = k.Body.Close() // now its trailers are there
	x.seeTrailers(k)
	if len(k.Trailer) == 0 {
		return
	}
	x.offer()
	_ = http.NewResponseController(x.w).Flush() // trailers come after chunks only
	x.taken()
	h := x.w.Header()
	for name, values := range k.Trailer {
		if len(k.Trailer) != announced {
			name = http.TrailerPrefix + name
		}
		h[name] = append(h[name], values...)
	}
}

// smallAnswer is how large a body may be that is copied at once, while the upstream's connection is still held.
const smallAnswer = 2 << 10

// gathers reports whether n bytes of the body are written without waiting for the client or a meter. net/http, which
// writes the answers of HTTP/2, gathers more than smallAnswer whatever the head is.
func (x *exchange) gathers(n int) bool { return !x.metered && (x.reply == nil || x.reply.fits(n)) }

// copyBody copies the body, piece by piece as it comes.
func (x *exchange) copyBody(k *behind.Call) error {
	if x.length = k.Length; x.length < 0 {
		x.length = math.MaxInt64
	}
	if x.length == 0 {
		return nil
	}
	late := true
	own, ok := k.Body.(*behind.Body)
	if ok {
		if small := own.Whole(smallAnswer); small != nil && x.gathers(len(small)) {
			_, err := x.piece(small, true)
			return err
		}
		n, all := own.Buffered()
		late = n == 0 && !all
	}
	if late {
		x.headLater()
	}
	var c copier
	defer c.free()
	splices := ok && x.splices()
	for {
		if splices {
			if err := x.splice(own, &c); err == nil {
				continue
			} else if err == io.EOF {
				return nil
			} else if err != splice.ErrNone {
				return err
			}
		}
		buf := c.buffer()
		n, err := k.Body.Read(buf)
		c.copied += n
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
func (x *exchange) upgrade(k *behind.Call) {
	wanted, got := k.Fields.Get("Upgrade"), upgradeOf(&k.Answer.Fields)
	server, ok := k.Body.(io.ReadWriteCloser)
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
	x.replied = k.Answer.Status
	x.seePrice(&k.Answer.Fields)
	h := x.w.Header()
	if x.reply != nil {
		h = x.reply.passed.Header()
	}
	copyEndToEnd(h, &k.Answer.Fields)
	h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{got}
	out := http.Response{StatusCode: k.Answer.Status, ProtoMajor: 1, ProtoMinor: 1, Header: h}
	if err := out.Write(brw); err != nil {
		return
	}
	if err := brw.Flush(); err != nil {
		return
	}
	x.tunnel(client, server)
}
