package httpgate

import (
	"bufio"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"weir/internal/testkit/needs"
)

// pacer is a meter that makes the flow pause for a second after every so many bytes.
func pacer(every int64) (*meter, *atomic.Int64) {
	total := new(atomic.Int64)
	return &meter{newThrottle(nil), func(n int64, now time.Time) time.Time {
		after := total.Add(n)
		if (after-n)/every != after/every {
			return now.Add(time.Second)
		}
		return time.Time{}
	}}, total
}

func TestMeterPausesResponse(t *testing.T) {
	next := make(chan bool)
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "12345")
		w.(http.Flusher).Flush()
		<-next
		_, _ = io.WriteString(w, "67890")
	})
	m, total := pacer(5)
	g := start(t, Options{Upstream: to(up.URL)}, m)
	res, err := client().Get(g.url)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if _, err := io.ReadFull(res.Body, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	close(next)
	needs.Wait(t, "a pause", func() bool { return g.clock.Pending() == 1 })
	if total.Load() != 5 {
		t.Errorf("%d bytes charged", total.Load())
	}
	g.clock.Advance(time.Second)
	if rest, err := io.ReadAll(res.Body); string(rest) != "67890" || err != nil {
		t.Errorf("%q %v", rest, err)
	}
	if o := receive(t, m.Settled); !o.Done || total.Load() != 10 || !o.Time.Equal(epoch.Add(time.Second)) {
		t.Errorf("%v, %d bytes charged", o, total.Load())
	}
}

// An answer that has come whole leaves the upstream's connection to others, while a meter makes its client wait.
func TestPausedAnswerHoldsNoServer(t *testing.T) {
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(make([]byte, 1500)) })
	g := start(t, Options{Upstream: to(up.URL)}, byteLimits(t, 100)["bloom"])
	c := g.dial()
	g.send(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	needs.Wait(t, "a pause", func() bool { return g.clock.Pending() > 0 })
	if stats := g.Setup.Load().servers.Stats(); stats[0].Active != 0 || stats[0].Idle != 1 {
		t.Errorf("%+v", stats)
	}
}

func TestMeterPausesRequest(t *testing.T) {
	m, total := pacer(5)
	g := start(t, Options{Upstream: to(echo(t).URL)}, m)
	c := g.dial()
	g.send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n12345")
	needs.Wait(t, "five bytes", func() bool { return total.Load() == 5 })
	g.send(c, "678")
	needs.Wait(t, "a pause", func() bool { return g.clock.Pending() == 1 })
	g.clock.Advance(time.Second)
	if res, body := g.answer(bufio.NewReader(c)); res.StatusCode != 200 || body != "12345678" {
		t.Errorf("%v %q", res.Status, body)
	}
}

// A client that leaves during a pause, its body unread, is noticed.
func TestLeavingWhilePaused(t *testing.T) {
	m, total := pacer(5)
	g := start(t, Options{Upstream: to(echo(t).URL)}, m)
	c := g.dial()
	g.send(c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 800\r\n\r\n12345")
	needs.Wait(t, "five bytes", func() bool { return total.Load() == 5 })
	needs.Wait(t, "a pause", func() bool { return g.clock.Pending() == 1 })
	_ = c.Close()
	receive(t, m.Settled)
	needs.Wait(t, "gone", func() bool { return g.UnderWay.Load() == 0 && g.clock.Pending() == 0 })
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A body of 256 MiB, in full 1 GiB, goes through in either direction while the heap stays small.
func TestLargeBody(t *testing.T) {
	needs.Unwatched(t)
	size := int64(256 << 20)
	if needs.Long() {
		size = 1 << 30
	}
	up := upstream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			n, _ := io.Copy(io.Discard, r.Body)
			w.Header().Set("X-Got", strconv.FormatInt(n, 10))
			return
		}
		_, _ = io.Copy(w, io.LimitReader(zeros{}, size))
	})
	g := start(t, Options{Upstream: to(up.URL)})
	var peak atomic.Uint64
	watch := func(r io.Reader) io.Reader {
		var seen, step int64
		return readerFunc(func(p []byte) (int, error) {
			n, err := r.Read(p)
			if seen += int64(n); seen >= step {
				step = seen + size/64
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				peak.Store(max(peak.Load(), m.HeapInuse))
			}
			return n, err
		})
	}
	runtime.GC()
	long := &http.Client{Transport: &http.Transport{}}
	res, err := long.Get(g.url)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, watch(res.Body))
	res.Body.Close()
	if n != size || err != nil {
		t.Errorf("%d bytes down, %v", n, err)
	}
	res, err = long.Post(g.url, "", watch(io.LimitReader(zeros{}, size)))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.Header.Get("X-Got") != strconv.FormatInt(size, 10) {
		t.Errorf("%s up", res.Header.Get("X-Got"))
	}
	if peak.Load() > 64<<20 {
		t.Errorf("the heap grew to %d MiB", peak.Load()>>20)
	}
	long.CloseIdleConnections()
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
